"""What each kind of edit does to the pixels of an image: NumPy's, the reference of the others."""
