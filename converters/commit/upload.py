"""A conversion into a bucket: a local dataset in the temporary directory, uploaded as the last step."""

import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from dataclasses import replace as replaced

from shardfeed.converters.commit.push import Pushed, push
from shardfeed.converters.report import Report
from shardfeed.errors import OutputExistsError, StorageError, UsageError, argument
from shardfeed.naming import MANIFEST
from shardfeed.storage.building import hidden_sibling
from shardfeed.storage.destination import destination
from shardfeed.storage.local import remove_tree


class LocalPlace:
    """A dataset on the local disk that a conversion makes: no more than its path, `local` (absolute)."""

    def __init__(self, local: str) -> None:
        self.local = local

    def may_replace(self, asked: bool) -> bool:
        """Whether a dataset at `local` may be replaced, if the user `asked` for it or not."""
        return asked

    def send(self) -> None:
        """Do what is left to do with the dataset in place."""

    def reported(self, report: Report) -> Report:
        """The report for the user."""
        return report


class Upload(LocalPlace):
    """The dataset at `url` that a conversion makes. `local`: where it is made, the same for each call with this URL.

    Raises as `destination`, and OutputExistsError.
    """

    def __init__(self, url: str) -> None:
        bucket = destination(url)
        self.url = url.rstrip("/")
        self._folder = os.path.join(_own_folder(), hashlib.blake2b(self.url.encode(), digest_size=8).hexdigest())
        super().__init__(os.path.join(self._folder, self.url.rpartition("/")[2]))
        self._pushed: Pushed | None = None
        # An earlier run may have been stopped between the upload and its end: then its staging directory is there.
        if not os.path.exists(hidden_sibling(self.local, "staging")) and bucket.info(f"{self.url}/{MANIFEST}"):
            remove_tree(self.local)
            raise OutputExistsError(self.url, "exists already", "choose another URL")
        os.makedirs(self._folder, exist_ok=True)

    def may_replace(self, asked: bool) -> bool:
        """True: an older local dataset is of no use. Raises UsageError if the user `asked` to replace the bucket's."""
        if asked:
            problem = f"got {argument('replace', True)}, but a dataset in a bucket is never replaced"
            raise UsageError(self.url, problem, "choose another URL")
        return True

    def send(self) -> None:
        """Upload the finished local dataset. Raises as `push`."""
        self._pushed = push(self.local, self.url)

    def reported(self, report: Report) -> Report:
        """Remove the local dataset if it is uploaded; the report of the dataset in the bucket."""
        notes = list(report.notes)
        if self._pushed is not None:
            remove_tree(self.local)
            if self._pushed.read_back:
                notes.append(read_back_note(self._pushed.read_back))
        for folder in (self._folder, os.path.dirname(self._folder)):
            with suppress(OSError):  # another conversion uses it
                os.rmdir(folder)
        return replaced(report, out=self.url, notes=notes)


def read_back_note(files: int) -> str:
    """Describe the check of files by a store without checksums."""
    return f"the store reports no CRC-32C: {files:,} files were read back and compared"


def _own_folder() -> str:
    """A folder below TMPDIR that only this user can write to."""
    path = os.path.join(tempfile.gettempdir(), f"shardfeed-{os.getuid()}")
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    state = os.lstat(path)
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid():
        raise StorageError(path, "belongs to another user", "set TMPDIR to a directory of your own")
    return path
