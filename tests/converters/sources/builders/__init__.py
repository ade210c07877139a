"""Builders of all readers, by the reader's name."""

from tests.converters.sources.builders import annotations, arrays, containers, tools

BUILDERS = {**containers.BUILDERS, **arrays.BUILDERS, **annotations.BUILDERS, **tools.BUILDERS}
