"""Copies of a split on a faster disk or in memory, unchanged or decoded."""
