"""Samples that are records already: of a dataset that is there, taken as they are.

What is made of them is a dataset as any other: planned, written by the same engines, resumed and committed. Only how a
record comes about differs, as nothing is left to be read, checked or encoded.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from shardfeed.schema import Schema


class StoredRecord(Protocol):
    """A record that is made already: picklable, and as cheap to have as a `SourceFile` until it is called.

    `size`: bytes of its payload, about. `digest`: bytes that differ where its payload does. `counted`: whether its
    `image/source_id` is a count, of this conversion or one before, and not its source's own number.
    """

    @property
    def size(self) -> int: ...
    @property
    def digest(self) -> bytes: ...
    @property
    def counted(self) -> bool: ...

    def __call__(self, number: int) -> bytes:
        """The payload (see shardfeed/formats/format.py), which is stored byte for byte. Raises IntegrityError.

        `number`: its place in the new split, for a record that is to be numbered by it.
        """
        ...


@runtime_checkable
class RecordedSource(Protocol):
    """A `Source` of samples with a `record` each. Its schema is the records', with all that conversion adds.

    `made_with`: the options that decided how its images are stored, for the manifest. `keeps_order`: whether samples
    are stored in the source's order in each split, and not in one that is drawn. `fingerprint`: that of the dataset
    that these are the samples of, all of them in their order; None where they are others.
    """

    schema: Schema
    made_with: Mapping[str, Any]
    keeps_order: bool
    fingerprint: str | None

    def __len__(self) -> int: ...
