"""Upload of a dataset to the Hugging Face Hub, by huggingface_hub: one commit, so it is there whole or not at all."""

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import unquote

from shardfeed.errors import OutputExistsError, ShardfeedError, StorageError, UsageError, argument, check_extra, escape
from shardfeed.hidden import logs_without_secrets
from shardfeed.manifest import parse_manifest
from shardfeed.naming import CARD, CROISSANT, MANIFEST, is_dataset_file
from shardfeed.storage.address import check_url, located
from shardfeed.storage.bucket_destination import check_unchanged
from shardfeed.storage.hub import authorization, bound, endpoint, files_below, parsed
from shardfeed.storage.objects import NETWORK
from shardfeed.storage.storage import FileInfo, open_side_file
from shardfeed.text import shell_quoted

_AT_ONCE = 64  # files that are uploaded before progress is reported; the Hub limits requests


class HubFolder:
    """A folder of a dataset repository of the Hub, to write to: "hf://datasets/USER/REPO@BRANCH/FOLDER".

    Raises UsageError for another URL, or if there is no such repository or branch; MissingExtraError, StorageError.
    """

    def __init__(self, url: str) -> None:
        check_url(url, "give only the URL, and the token in HF_TOKEN")
        check_extra("huggingface_hub", url)
        repository, branch, _ = parsed(url)
        self.url, self._branch = url, unquote(branch) or "main"
        try:
            self._root, there = bound(url)
        except UsageError:
            repository = shell_quoted(repository)
            create = f"`hf repos create {repository} --repo-type dataset --exist-ok`"
            if self._branch != "main":
                branch = shell_quoted(self._branch)
                create += f", then `hf repos branch create {repository} {branch} --repo-type dataset`"
            raise UsageError(url, "no such repository or branch", f"create it with {create}") from None
        self._folder = there[len(self._root) :].strip("/")
        if self._root.endswith(f"@{self._branch}"):
            raise UsageError(url, "got a commit, which cannot change, expected a branch", "write its name after the @")
        if self._folder and {"", ".", ".."}.intersection(self._folder.split("/")):
            raise UsageError(url, "has an empty part, '.' or '..' in its path", "remove it")

    def commit(
        self,
        directory: str,
        files: Mapping[str, FileInfo],
        beside: Mapping[str, FileInfo],
        *,
        replace: bool,
        progress: Callable[[int], object],
    ) -> int:
        """Commit the `files` of a dataset and those `beside` it, where they are not there; return how many.

        `replace`: other files of these names are replaced, and those of another dataset removed, by the same commit.
        Raises OutputExistsError, IntegrityError, StorageError.
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

        wanted, there = {**files, **beside}, self._listed(self._root)
        new = {name: info for name, info in wanted.items() if there.get(name) != info.size}
        old = {name: self._read(name) for name in (MANIFEST, *beside) if name in there}
        new |= {name: wanted[name] for name, content in old.items() if FileInfo.of(content) != wanted[name]}
        theirs = set[str]()
        if MANIFEST in new:
            new = {name: info for name, info in wanted.items() if name in new or name in files}
            with suppress(ShardfeedError):  # a file of another program
                theirs = {CROISSANT, *parse_manifest(old.get(MANIFEST, b""), self.url).files()}
        folders = {os.path.dirname(name) for name in wanted}  # there may be other datasets below
        stale = [name for name in there if is_dataset_file(name) and os.path.dirname(name) in folders]
        stale = sorted({*stale, *theirs}.intersection(there) - wanted.keys())
        found = {MANIFEST: "another dataset is there", **dict.fromkeys(beside, "another file of this name is there")}
        found = {name: problem for name, problem in found.items() if name in new and name in there}
        for name, problem in (found | dict.fromkeys(stale, "is a file of a dataset, but not of this one")).items():
            if not replace:
                remedy = f"choose another URL, or give {argument('replace', True)}: earlier commits keep what is there"
                raise OutputExistsError(f"{self.url}/{name}", problem, remedy)
        if not new and not stale:
            return 0
        repository, _, parent = self._root.removeprefix("hf://datasets/").partition("@")
        to: dict[str, Any] = {"repo_id": repository, "repo_type": "dataset", "revision": self._branch}
        token = authorization().get("Authorization", "").removeprefix("Bearer ")
        api = HfApi(endpoint=endpoint(), token=token or None)
        operations: list[Any] = [CommitOperationDelete(self._path(name)) for name in stale]
        with _guarded(self.url):
            for begin in range(0, len(new), _AT_ONCE):
                group = [(name, os.path.join(directory, name)) for name in [*new][begin : begin + _AT_ONCE]]
                for name, path in group:
                    check_unchanged(path, new[name], FileInfo.of_file(path))
                added = [CommitOperationAdd(self._path(name), path) for name, path in group]
                api.preupload_lfs_files(additions=added, gitignore_content="", **to)  # a .gitignore there has no say
                operations += added
                for name, _ in group:
                    progress(new[name].size)
            message = "Add a dataset with shardfeed"
            done = api.create_commit(operations=operations, commit_message=message, parent_commit=parent, **to)
        arrived = self._listed(self._root.replace(parent, done.oid))
        for name in (name for name, info in wanted.items() if arrived.get(name) != info.size):
            problem = f"commit {done.oid} does not have the file as it was sent"
            raise StorageError(f"{self.url}/{name}", problem, "run the same command again", errno.EIO)
        return len(new)

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}".lstrip("/")

    def _listed(self, root: str) -> dict[str, int]:
        """Name below the folder -> bytes, of all files at a commit."""
        above = len(self._path(""))
        return {name[above:]: size for page in files_below(root, self._folder) for name, size in page}

    def _read(self, name: str) -> bytes:
        storage, root = located(self._root)
        return open_side_file(f"{root}/{self._path(name)}", storage)[1]


@contextmanager
def _guarded(url: str) -> Iterator[None]:
    """Run requests of huggingface_hub without its bars, and without secrets in its logs. Raises StorageError."""
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    shown = not are_progress_bars_disabled()
    disable_progress_bars()
    try:
        with logs_without_secrets():
            yield
    except ShardfeedError:
        raise
    except Exception as error:  # of HTTP, LFS and Xet
        raise _failed(url, error) from None
    finally:
        if shown:
            enable_progress_bars()


def _failed(url: str, error: BaseException) -> ShardfeedError:
    """The error for a failed request."""
    if isinstance(error, ValueError) and CARD in str(error):
        return StorageError(url, escape(error), "correct the lines between the --- at its begin", errno.EINVAL)
    while not hasattr(error, "response") and error.__cause__ is not None:
        error = error.__cause__
    status = getattr(getattr(error, "response", None), "status_code", None)
    said = f": {escape(text)}" if (text := getattr(error, "server_message", None)) else ""
    if status in (401, 403):
        remedy = "log in with `hf auth login`, or set HF_TOKEN, with a token that may write there"
        return StorageError(url, f"access denied (HTTP status {status}){said}", remedy, errno.EACCES)
    if status in (409, 412):
        return StorageError(url, "another commit was made meanwhile", "run the same command again", errno.EBUSY)
    if not status and _is_of_answer(error):
        problem = f"the answer is not the Hub's: huggingface_hub raises {type(error).__name__}"
        return StorageError(url, problem, "check HF_ENDPOINT, and what the repository has now", errno.EIO)
    problem = f"HTTP status {status}{said}" if status else type(error).__name__
    return StorageError(url, f"cannot be written: {problem}", NETWORK, errno.EIO)


def _is_of_answer(error: BaseException) -> bool:
    """Whether huggingface_hub did not understand an answer: of another shape, of other names, or nested deeply."""
    from huggingface_hub.utils import HFValidationError

    if isinstance(error, UnicodeError | HFValidationError):  # of a token or a name that is sent
        return False
    return isinstance(error, ValueError | LookupError | TypeError | RecursionError)
