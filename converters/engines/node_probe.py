"""Check that shards can be written from a node: it must see a probe file and an image, and have the same versions.

The file is in the directory of attempts, or in the bucket, where the node must also be able to write and remove files.
"""

import os
import platform
import secrets
from collections.abc import Mapping
from typing import NamedTuple

from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.planning.samples import made_by
from shardfeed.converters.rejects import RejectedError
from shardfeed.converters.shards.task import ShardTask
from shardfeed.converters.sources.reading import read_image
from shardfeed.converters.sources.source import Sample, SourceFile
from shardfeed.errors import ShardfeedError, StorageError, UsageError, escape
from shardfeed.storage.address import destination
from shardfeed.storage.local import write_file
from shardfeed.storage.storage import FileInfo, is_address

_SHARE = "use a path that every node can access"
_ALLOW = "give each node the same endpoint, and credentials that may read, write and remove files there"


class Question(NamedTuple):
    """Request to a node: read the file `path` and the image file of `sample`, and report the versions of packages."""

    path: str
    sample: Sample | None
    image: ImageOptions
    format: str


class Node(NamedTuple):
    """Answer of a node. `problem`: why `path` could not be read; `unreadable`: why the image could not, or ""."""

    name: str
    token: bytes
    problem: str
    unreadable: str
    versions: dict[str, str]


def look(question: Question) -> Node:
    """Examine the node where this is called. Raises UsageError if a package is missing."""
    token, problem = b"", ""
    try:
        if is_address(question.path):
            bucket, own = destination(question.path), f"{question.path}-{secrets.token_hex(4)}"
            token = bucket.read(question.path) or b""
            bucket.put_new(own, token, FileInfo.of(token))
            bucket.delete(own)
        else:
            with open(question.path, "rb") as file:
                token = file.read()
    except ShardfeedError as error:
        problem = str(error)
    except OSError as error:
        problem = error.strerror or type(error).__name__
    return Node(platform.node(), token, problem, _unreadable(question), made_by(question.image, question.format))


def _unreadable(question: Question) -> str:
    try:
        if question.sample is not None:
            read_image(question.sample, question.image.max_bytes)
    except (RejectedError, ShardfeedError) as error:
        return str(error)
    return ""


class Probe:
    """A file with a random token in `directory` (or below a URL), and one image of `task` that this process can read.

    There is no image if this process cannot read it either.
    """

    def __init__(self, directory: str, task: ShardTask) -> None:
        self._token = secrets.token_hex(16).encode()
        self._versions = made_by(task.image, task.format)
        path = os.path.join(directory, f"probe-{secrets.token_hex(4)}")  # a new name, which no node has cached
        if is_address(path):
            destination(path).put_new(path, self._token, FileInfo.of(self._token))
        else:
            write_file(path, self._token)
        files = (sample for sample in task.samples if isinstance(sample.image, SourceFile))
        self.question = Question(path, next(files, None), task.image, task.format)
        if _unreadable(self.question):
            self.question = self.question._replace(sample=None)

    def check(self, node: Node) -> None:
        """Raise StorageError if a node does not see the output or the images, UsageError if its shards would differ."""
        name = escape(node.name)
        path, sample, *_ = self.question
        if is_address(path) and (node.problem or node.token != self._token):
            problem = f"node {name} cannot use this bucket: {node.problem or 'the file of this check is not there'}"
            raise StorageError(os.path.dirname(path), problem, _ALLOW)
        if node.token != self._token:
            problem = f"node {name} does not see this directory: {node.problem or 'it has another file there'}"
            raise StorageError(os.path.dirname(path), problem, _SHARE)
        if sample is not None and node.unreadable:
            place = sample.image.path if isinstance(sample.image, SourceFile) else sample.key
            raise StorageError(place, f"node {name} does not see this image: {escape(node.unreadable)}", _SHARE)
        check_versions(name, node.versions, self._versions)


def check_versions(node: str, there: Mapping[str, str], here: Mapping[str, str]) -> None:
    """Raise UsageError if the packages of a node have other versions, and so could produce different bytes."""
    names = (each for each in sorted(there.keys() | here.keys()) if there.get(each) != here.get(each))
    if differ := ", ".join(f"{each} {there.get(each)}, not {here.get(each)}" for each in names):
        raise UsageError(f"node {node}", f"has {differ}", "install the same versions on every node")
