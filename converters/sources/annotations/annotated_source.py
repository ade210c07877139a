"""A source of listed images and their annotations."""

from shardfeed.converters.sources.rows.source import ListedSource


class AnnotatedSource(ListedSource):
    """A source of listed images and their objects; image i of `objects` and `rasters` is file i of `listing`."""
