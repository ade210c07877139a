"""Annotations in a worker: their places in the stored image, and an account of each."""
