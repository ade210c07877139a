"""Augmentations, one in each file: what it draws, and the edits that follow from that."""
