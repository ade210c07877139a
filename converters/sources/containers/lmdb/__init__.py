"""LMDB databases of images, in the dialects that datasets come in."""

from shardfeed.converters.sources.containers.lmdb.reader import read as read
from shardfeed.converters.sources.containers.lmdb.reader import recognise as recognise
