"""A directory under another name until it is whole."""
