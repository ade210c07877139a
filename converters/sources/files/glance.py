"""What names there are right in a folder, by one listing that everybody who asks shares."""

import os
from collections.abc import Sequence
from functools import cached_property

_FOLDER = "/"  # what the name of a folder ends in here


class Glance:
    """A look at the names in the folder `path`, made when it is first asked for; hidden names are passed over.

    `ends`: what the ends of names are looked for, in lower case; "/" is that of every folder.
    """

    def __init__(self, path: str, ends: Sequence[str] = ()) -> None:
        self.path, self._ends = path, (*ends, _FOLDER)

    def may_have(self, ends: Sequence[str]) -> bool:
        """Whether a name ends in one of these, which must be among those looked for; true for none, and for a file."""
        return not ends or not os.path.isdir(self.path) or not self._seen.isdisjoint(ends)

    @property
    def is_flat(self) -> bool:
        """Whether there are files and no folder: then only file names can carry labels."""
        return bool(self._seen) and _FOLDER not in self._seen

    @cached_property
    def _seen(self) -> set[str]:
        """Those of the ends that are there, and "" where there is any name."""
        seen: set[str] = set()
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    name = entry.name
                    if name[0] == ".":
                        continue
                    seen.add("")
                    name = name.lower() + _FOLDER if entry.is_dir() else name.lower()
                    if name.endswith(self._ends):
                        seen.update(end for end in self._ends if name.endswith(end))
        except OSError:
            return set()  # the source says what is wrong
        return seen
