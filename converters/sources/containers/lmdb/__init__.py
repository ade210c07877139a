"""LMDB databases of images, in the dialects that datasets come in."""
