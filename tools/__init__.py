"""The command line, and what stands behind one command each."""
