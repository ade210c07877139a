"""What is no folder and no label file, by its name: addresses, archives, files of many samples; and what to do."""

import os
import re

from shardfeed.errors import UsageError

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_TOOLS = {"s3": "`aws s3 sync`", "gs": "`gcloud storage rsync`", "http": "`curl -LO`", "https": "`curl -LO`"}
_UNPACK = "unpack it into a folder, and give that: "
_SOURCE = "read it in a Source of your own, which is a class with two methods: see docs/your-own-source.md"
_KINDS = (
    (r"\.zip", "an archive", f"{_UNPACK}unzip FILE -d FOLDER"),
    (r"\.(tar|tgz|tbz2?|txz|tar\.\w+)", "an archive", f"{_UNPACK}tar -xf FILE -C FOLDER"),
    (r"\.(7z|rar)", "an archive", f"{_UNPACK}7z x FILE -oFOLDER"),
    (r"\.(arrow|feather|pkl|pt)", "a file of samples in a form of its own", _SOURCE),
    (r"\.(lmdb|mdb|h5|hdf5|npz|npy|tfr\w*(\.gz)?)", "a file of many samples", "give it alone: it has its labels in it"),
    (r"\.(xlsx?|ods)", "a spreadsheet", "save it as CSV"),
)


def check_local(path: str | bytes | os.PathLike[str]) -> None:
    """Raises UsageError for an address: images and datasets lie on a file system."""
    text = os.fsdecode(path)
    if found := _ADDRESS.match(text):
        tool = _TOOLS.get(found[1].lower(), "a tool of its own")
        remedy = f"copy it with {tool}, or mount it"
        raise UsageError(text, "is an address, expected a path of this machine", remedy)


def check_kind(path: str | os.PathLike[str]) -> None:
    """Raises UsageError for an address, and for a file that is known to be neither images nor a label file."""
    check_local(path)
    text = os.fspath(path)
    if os.path.isfile(text):
        for pattern, what, remedy in _KINDS:
            if re.search(f"{pattern}$", text, re.IGNORECASE):
                raise UsageError(text, f"is {what}, expected a folder of images or a label file", remedy)
