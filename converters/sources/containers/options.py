"""What a user may say of a file of many samples, whatever its format."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shardfeed.converters.sources.classes import ClassList
from shardfeed.errors import argument


@dataclass(frozen=True)
class ContainerOptions:
    """For `recognise` and `read` of every reader in this folder.

    `columns`: what a column (array, dataset, feature, key) is called that holds a thing: "image", "label", "key",
    "text", "split", or the key of another feature -> its name in the file; those that are not named have their usual
    names. `class_names`: in label order, or the file with one a line; default what the format says, else the numbers.
    `label_offset`: the number of the first class in the file, subtracted from each label: 1 where 0 means background.
    `label_map`: a label map (`.pbtxt`, or lines like `1:cat`) that numbers and names the classes. `split`: the split of
    all, where the file does not say.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    class_names: ClassList | None = None
    label_offset: int = 0
    label_map: str | None = None
    split: str | None = None


def naming(what: str, column: str) -> str:
    """How a message says that `column` is to be taken for `what`."""
    return argument("columns", python=f"columns={{{what!r}: {column!r}}}", typed=f"{what}={column}")
