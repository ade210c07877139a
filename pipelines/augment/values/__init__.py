"""The pixels of an image after each kind of edit, by NumPy: the reference of the other ways."""
