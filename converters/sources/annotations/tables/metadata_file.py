"""Hugging Face's `metadata.jsonl` and `metadata.csv`: where they lie, and their rows."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shardfeed.converters.sources.annotations.options import AnnotationOptions
from shardfeed.converters.sources.labels.table import LabelTable
from shardfeed.converters.sources.split_names import usual_split
from shardfeed.errors import LabelFileError, escape

NAMES = ("metadata.jsonl", "metadata.csv")


@dataclass(frozen=True)
class MetadataFile:
    """One metadata file; `folder`, which ends in "/" or is empty, is where it lies in the root."""

    table: LabelTable
    folder: str

    def rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Line and columns of each row. Raises LabelFileError for one that cannot be read."""
        if self.table.format == "jsonl":
            yield from self._objects()
            return
        records = iter(self.table)
        header = next(records, None)
        names = [str(name).strip() for name in header.cells] if header else []
        for record in records:
            if len(record.cells) != len(names):
                problem = f"got {len(record.cells)} cells, expected {len(names)} as in the first row"
                raise LabelFileError(self.place(record.line), problem, "quote cells that contain the delimiter")
            yield record.line, dict(zip(names, map(str, record.cells), strict=True))

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for line, text in enumerate(self.table.lines(), 1):
            if not text.strip():
                continue
            try:
                row = json.loads(text)
            except json.JSONDecodeError as error:
                problem = f"not JSON: {escape(error.msg)}, at character {error.pos + 1}"
                raise LabelFileError(self.place(line), problem, "write one JSON object on each line") from None
            except (ValueError, RecursionError):
                problem = "not JSON: nested too deep, or a number that is too long"
                raise LabelFileError(self.place(line), problem, "write plain numbers, texts and lists") from None
            if not isinstance(row, dict):
                raise LabelFileError(self.place(line), "got no JSON object", 'write {"file_name": ..., "objects": ...}')
            yield line, row

    def place(self, line: int) -> str:
        """Where a row is, for errors."""
        return self.table.place(line)


def metadata_files(path: str, options: AnnotationOptions) -> list[MetadataFile]:
    """The metadata files that a path means; none where it means none. Raises LabelFileError for two in one folder."""
    folders = [""]
    if not os.path.isdir(path):
        if os.path.basename(path) not in NAMES:
            return []
        names = {"": [os.path.basename(path)]}
        path = os.path.dirname(path) or "."
    else:
        try:
            folders += [f"{name}/" for name in sorted(os.listdir(path)) if usual_split(name)]
        except OSError:
            return []
        names = {folder: [n for n in NAMES if os.path.isfile(os.path.join(path, folder, n))] for folder in folders}
    found = []
    for folder, there in names.items():
        if len(there) > 1:
            place = os.path.join(path, folder, there[1])
            raise LabelFileError(place, f"{there[0]} is there, too", "leave one of the two out")
        for name in there:
            format = "jsonl" if name.endswith(".jsonl") else "csv"
            delimiter = options.delimiter if format == "csv" else None
            found.append(
                MetadataFile(LabelTable(os.path.join(path, folder, name), format, delimiter, options.encoding), folder)
            )
    return found
