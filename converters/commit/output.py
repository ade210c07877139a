"""Checks of the output directory, and the commit, which gives the finished dataset its name."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from shardfeed.converters.commit.staging import Staging
from shardfeed.converters.planning.plan import Plan
from shardfeed.errors import IntegrityError, OutputExistsError, StorageError, UsageError, argument, escape
from shardfeed.manifest import Manifest, has_manifest, read_manifest
from shardfeed.naming import MANIFEST, is_dataset_file
from shardfeed.storage.local import TEMPORARY, built, fsync_directory, give_name, locked
from shardfeed.storage.storage import LOCAL, sizes_by_name


class Output:
    """The dataset `path` (absolute) that a conversion makes, while it holds the lock.

    `staging`: its build directory. `committed`: whether an earlier run renamed the dataset but was stopped before it
    could clean up.
    """

    def __init__(self, path: str, staging: Staging, *, replace: bool, restart: bool) -> None:
        self.path, self.staging, self._replace = path, staging, replace
        if restart:
            check_untaken(path, replace=replace)
            staging.check_ours()
            staging.clear()
        self.committed = staging.committed(path)
        if not self.committed:
            staging.sweep()
            check_untaken(path, replace=replace)

    @classmethod
    @contextmanager
    def open(cls, path: str, staging: Staging, *, replace: bool, restart: bool) -> Iterator["Output"]:
        """The output for a block; `replace`: an existing dataset may be replaced by the new one.

        `restart`: leftovers of an earlier run in `staging` are removed.

        Raises UsageError, OutputExistsError or StorageError if it cannot be created, BusyError if another run is making
        it, PlanMismatchError if the leftovers of an earlier run are damaged.
        """
        check_output(path, replace=replace)
        with locked(path):
            yield cls(path, staging, replace=replace, restart=restart)

    def finished(self, plan: Plan, last: Callable[[], None]) -> Manifest | None:
        """The manifest, if an earlier run finished and committed this plan; that run's leftovers are removed.

        `last`: as in `commit`.

        Raises OutputExistsError if it was another plan and may not be replaced.
        """
        if not self.committed:
            return None
        same = self.staging.is_of(plan)
        fsync_directory(os.path.dirname(self.path))  # that run may have been stopped before this, too
        manifest = read_manifest(self.path)
        if same:
            last()
        self.staging.clear()
        if same:
            return manifest
        check_untaken(self.path, replace=self._replace)
        return None

    def commit(self, last: Callable[[], None]) -> list[str]:
        """Give the staged dataset its name; sentences about what could not be cleared up, which changes nothing.

        `last` is called with the dataset in place; if it fails, or is killed, the next run calls it again.

        Raises OutputExistsError where something else has the name by now, StorageError.
        """
        check_untaken(self.path, replace=self._replace)  # it may have come while this ran
        check_output(self.path, replace=self._replace)
        self.staging.note_commit()
        give_name(self.staging.dataset, self.path)
        last()
        return _clear(self.staging)


def _clear(staging: Staging) -> list[str]:
    """Remove the leftovers of a committed dataset; returns a sentence if that fails."""
    try:
        staging.clear()
    except StorageError as error:
        return [f"the dataset is complete, but temporary files could not be removed: {error}"]
    return []


@contextmanager
def new_dataset(out: str) -> Iterator[str]:
    """A directory to build a dataset in, which becomes `out` (absolute) by one rename when the block ends.

    If the block raises, nothing remains. Leftovers of a killed run are removed by the next one. Raises UsageError,
    OutputExistsError, StorageError if `out` cannot be created, BusyError if another run is making it.
    """
    check_new_output(out)
    with locked(out):
        check_new_output(out)  # another run may have made it since
        with built(out) as directory:
            yield directory


def check_new_output(out: str) -> None:
    """Raise UsageError, OutputExistsError or StorageError if the directory `out` (absolute) cannot be created."""
    if os.path.lexists(out):
        raise OutputExistsError(out, "exists already", "choose another name")
    check_parent(out)


def check_parent(out: str) -> None:
    """Raise UsageError or StorageError if nothing can be created beside `out` (absolute)."""
    parent = os.path.dirname(out)
    if not os.path.isdir(parent):
        raise UsageError(out, "its parent directory does not exist", f"create {parent} first")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise StorageError(parent, "cannot be written", "choose another location, or change its permissions")


def check_apart(out: str, folder: bytes | None) -> None:
    """Raise UsageError for an output inside `folder`, which is all a source's: shards would be taken for images."""
    if folder is not None and _is_inside(out, os.fsdecode(folder)):
        raise UsageError(out, f"is inside the source {escape(folder)}", "choose a location outside of it")


def check_outside(out: str, directories: Iterable[str]) -> None:
    """Raise UsageError for an output that is, or lies in, one of the datasets' directories: they are only read."""
    for directory in directories:
        if _is_inside(out, directory):
            problem = f"is inside the dataset {escape(directory)}, which is only read"
            raise UsageError(out, problem, "choose a location outside of it")


def _is_inside(place: str, folder: str) -> bool:
    root = os.path.realpath(folder)
    return os.path.commonpath([root, os.path.realpath(place)]) == root


def check_untaken(out: str, *, replace: bool) -> None:
    """Raise OutputExistsError for an output that exists, unless it may be replaced."""
    if os.path.lexists(out) and not replace:
        raise OutputExistsError(out, "exists already", f"choose another name, or give {argument('replace', True)}")


def check_output(out: str, *, replace: bool) -> None:
    """Refuse before any image is read what could not be written in the end."""
    if os.path.lexists(out) and not os.path.isdir(out):
        raise OutputExistsError(out, "exists and is not a directory", "choose another name")
    if replace and os.path.isdir(out):
        _check_replaceable(out)
    check_parent(out)


def _check_replaceable(out: str) -> None:
    """Raise OutputExistsError unless the directory holds a dataset and nothing else: all of it will be deleted."""
    if not has_manifest(out):
        problem = f"has no {MANIFEST} of a shardfeed dataset, so it is not replaced"
        raise OutputExistsError(out, problem, "choose another name")
    try:
        manifest = read_manifest(out)
        ours = manifest.files().keys() | {MANIFEST}
        present = sizes_by_name(LOCAL, out, manifest.folders())
    except IntegrityError:  # a damaged dataset may be replaced
        folders = [entry.name for entry in LOCAL.entries(out) if entry.size < 0]
        present = sizes_by_name(LOCAL, out, folders)
        ours = {name for name in present if is_dataset_file(name)}
    for name in sorted(present):
        if name.removesuffix(TEMPORARY) not in ours or present[name] < 0:
            problem = f"holds {escape(name)}, which is not part of the dataset and would be lost"
            raise OutputExistsError(out, problem, "move it away, or choose another name")
