"""Images with annotations beside them: for each format, its reader, and the writer of an export."""
