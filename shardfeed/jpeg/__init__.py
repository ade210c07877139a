"""JPEG files as bytes: their markers, and the pieces that restart markers cut their image data into."""
