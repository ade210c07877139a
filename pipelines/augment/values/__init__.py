"""The pixels of an image after each kind of edit: NumPy's, the reference of the others."""
