"""COCO's JSON files: read piece by piece, whatever their size; which of them a folder has; what is in them."""

from shardfeed.converters.sources.annotations.coco.reader import read as read
from shardfeed.converters.sources.annotations.coco.reader import recognise as recognise
