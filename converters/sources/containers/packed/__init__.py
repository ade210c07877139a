"""What readers of files of many samples have in common: which files, compact columns, class numbers, the source."""
