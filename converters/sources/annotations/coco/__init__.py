"""COCO's JSON files: found in a folder, and read piece by piece, at any size."""

from shardfeed.converters.sources.annotations.coco.reader import read as read
from shardfeed.converters.sources.annotations.coco.reader import recognise as recognise
