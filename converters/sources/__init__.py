"""Sources of samples: readers of folders, files, annotations and other datasets."""
