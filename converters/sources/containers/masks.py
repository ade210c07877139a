"""Masks that are parts of larger files, each beside its image: under the name that readers here know."""

from shardfeed.converters.sources.annotations.masks.meaning import Masks as PartMasks
from shardfeed.converters.sources.annotations.masks.meaning import read_masks

__all__ = ["PartMasks", "read_masks"]
