"""JPEG files as bytes: their markers, and the pieces of image data between restart markers."""
