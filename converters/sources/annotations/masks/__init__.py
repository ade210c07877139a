"""Folders of images and of masks for them, each a class for each pixel."""
