"""Folders of images, whose names say the labels, or that have none."""
