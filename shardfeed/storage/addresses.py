"""Addresses (`s3://bucket/photos`), which are refused with the tool that copies what is there."""

import os
import re

from shardfeed.errors import UsageError

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_TOOLS = {"s3": "`aws s3 sync`", "gs": "`gcloud storage rsync`", "http": "`curl -LO`", "https": "`curl -LO`"}


def check_local(path: str | bytes | os.PathLike[str]) -> None:
    """Raises UsageError for an address: images and datasets lie on a file system."""
    text = os.fsdecode(path)
    if found := _ADDRESS.match(text):
        tool = _TOOLS.get(found[1].lower(), "a tool of its own")
        raise UsageError(text, "is an address, expected a path of this machine", f"copy it with {tool}, or mount it")
