"""Folders of images, with labels in the names of folders or files, or without labels."""
