"""Files of a backup: the variables of a model, and a JSON file that says when they were saved.

`step-00000120.npz` has the variables in the model's order; `backup.json` names that file, the step, and the order of
the samples. The variables are written first, under a new name, and then the JSON is replaced by one rename: a kill
leaves either the old pair or the new one.
"""

import io
import json
import os
import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardfeed.errors import IntegrityError
from shardfeed.pipelines.orders.position import Position
from shardfeed.storage.checksum import crc32c
from shardfeed.storage.local import TEMPORARY, NewFile, remove_file, write_file
from shardfeed.storage.storage import file_checksum

RECORD = "backup.json"

_FORMAT = 1
_VARIABLES = re.compile(rf"step-\d+\.npz({re.escape(TEMPORARY)})?")
_ANEW = "restore it, or start in another directory"


@dataclass(frozen=True)
class SavedState:
    """Content of `backup.json`.

    `before`: the step or epoch that was about to begin. `variables`, `size`, `crc32c`: the file of the variables, its
    bytes and checksum.
    """

    position: Position
    before: str
    variables: str
    size: int
    crc32c: int

    def to_json(self) -> str:
        """One line that includes its CRC-32C; `load` reads it."""
        content = {"format": _FORMAT, **vars(self), "position": json.loads(self.position.to_json())}
        checksum = crc32c(json.dumps(content, sort_keys=True).encode())
        return json.dumps({**content, "checksum": checksum}, sort_keys=True)

    @classmethod
    def load(cls, directory: str) -> "SavedState | None":
        """Read the directory's JSON; None without one. Raises IntegrityError unless `save` wrote it."""
        path = os.path.join(directory, RECORD)
        try:
            with open(path, "rb") as file:
                value = json.load(file)
            if type(value["format"]) is not int or value["format"] > _FORMAT:
                raise ValueError(f"its format is {value['format']!r}, this release reads {_FORMAT}")
            stated = {key: value[key] for key in cls.__dataclass_fields__}
            saved = cls(**{**stated, "position": Position.from_json(json.dumps(stated["position"]), path)})
            if json.loads(saved.to_json()) != value:
                raise ValueError("changed since it was written: its checksum does not match")
            return saved
        except FileNotFoundError:
            return None
        except IntegrityError:
            raise
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise IntegrityError(path, f"not a backup: {type(error).__name__}: {error}", _ANEW) from None

    @classmethod
    def save(
        cls, directory: str, position: Position, before: str, variables: Iterable[tuple[str, np.ndarray]]
    ) -> "SavedState":
        """Write the variables (name, value), one after the other, then the JSON; then remove older variables.

        Raises StorageError; the previous state then stays intact.
        """
        name = f"step-{position.step:08d}.npz"
        with NewFile(os.path.join(directory, name)) as file, zipfile.ZipFile(_Stream(file), "w") as archive:
            for number, (variable, value) in enumerate(variables):
                with archive.open(f"{number} {variable}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, value, allow_pickle=False)
        saved = cls(position, before, name, file.size, file.crc32c)
        write_file(os.path.join(directory, RECORD), (saved.to_json() + "\n").encode())
        for old in os.listdir(directory):
            if _VARIABLES.fullmatch(old) and old != name:
                remove_file(os.path.join(directory, old))
        return saved

    def read(self, directory: str) -> list[np.ndarray]:
        """The variables, in order; numbers that NumPy's format lacks (bfloat16) as bytes, dtype kind V.

        Raises IntegrityError if the file is missing, or has changed since it was written.
        """
        path = os.path.join(directory, self.variables)
        try:
            found = file_checksum(path)
        except OSError as error:
            raise IntegrityError(path, f"cannot be read: {error.strerror}", _ANEW) from error
        if found != (self.size, self.crc32c):
            raise IntegrityError(path, "changed since it was written: its checksum does not match", _ANEW)
        with np.load(path) as archive:
            return [archive[name] for name in archive.files]


class _Stream(io.RawIOBase):
    """A file object for `zipfile` that writes to a NewFile."""

    def __init__(self, file: NewFile) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._file.write([bytes(data)])
        return len(data)
