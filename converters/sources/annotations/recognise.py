"""Where readers that are not rewritten yet have `Evidence` from."""

from shardfeed.converters.sources.reader import Evidence, missing_of

__all__ = ["Evidence", "missing_of"]
