"""Sources that say by what they were recognised."""

from dataclasses import replace
from typing import TypeVar

from shardfeed.converters.sources.annotations.annotated_source import AnnotatedSource
from shardfeed.converters.sources.containers.packed.block_source import BlockSource
from shardfeed.converters.sources.containers.packed.part_source import PartSource

_Recognised = TypeVar("_Recognised", bound=AnnotatedSource | BlockSource | PartSource)


def described(source: _Recognised, words: str) -> _Recognised:
    """The same source with another description, which is the first of its notes."""
    findings = replace(source.findings, notes=[words, *source.findings.notes])
    return replace(source, described=words, findings=findings)
