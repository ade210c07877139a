"""Masks in image files: their values, their colours, and which image each is of."""
