"""Drawn scenes for the samples: several shapes an image, and the same annotations in the formats that people have."""
