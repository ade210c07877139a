"""Archives and compressed files: walked, and decompressed once where they cannot be read in place."""
