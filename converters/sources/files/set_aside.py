"""Files beside a dataset that say nothing about it: the archive that it came in, and notes for people."""

import os
import re
import zipfile
from typing import BinaryIO, cast

from shardfeed.converters.sources.files.annotation_files import recognise_annotations
from shardfeed.converters.sources.files.archive import UNKNOWN_SIZE, Forwards
from shardfeed.converters.sources.files.listing import ARCHIVE
from shardfeed.converters.sources.files.tar import members
from shardfeed.converters.sources.files.unpack import DamagedStreamError, form_of, unpacked
from shardfeed.converters.sources.files.walk import is_remark
from shardfeed.converters.sources.guard import guarded, open_regular
from shardfeed.errors import ShardfeedError, name_text

_CODE = (".py", ".ipynb", ".sh", ".m", ".pdf", ".md", ".rst", ".ini", ".db", ".bib", ".cff", ".log")
_TEXTS = (".txt", "")
_WORD = re.compile(rb"[A-Za-z]{2,}")
_SENTENCE = 4  # words of a line, in a text that is for people


def is_unpacked_beside(folder: str, name: str) -> bool:
    """Whether the archive `name` in a folder has been unpacked there: its first file lies beside it.

    It may lie in the folder itself, or in one that is called like the archive. Of a 7z or RAR archive, which is not
    opened, the folder of its name is enough.
    """
    stem = ARCHIVE.sub("", name)
    own = os.path.join(folder, stem)
    if name.lower().endswith((".7z", ".rar")):
        return os.path.isdir(own)
    first = _first_member(os.path.join(folder, name))
    return bool(first) and any(os.path.isfile(os.path.join(place, first)) for place in (folder, own))


def _first_member(path: str) -> str:
    """The name of the first file in a zip or a tar; "" if there is none, or it cannot be read."""
    try:
        with guarded(path):
            return _first_in_zip(path) if path.lower().endswith(".zip") else _first_in_tar(path)
    except (ShardfeedError, DamagedStreamError, OSError):
        return ""  # whoever reads it reports the fault


def _first_in_zip(path: str) -> str:
    with open_regular(path) as file, zipfile.ZipFile(file) as archive:
        return next((info.filename for info in archive.infolist() if not info.is_dir()), "")


def _first_in_tar(path: str) -> str:
    form = form_of(path)
    if form:
        return _first_plain(cast("BinaryIO", Forwards(unpacked(path, form, path), path)), path)
    with open_regular(path) as file:
        return _first_plain(file, path)


def _first_plain(file: BinaryIO, path: str) -> str:
    """The name of the first plain file of a tar, "" if it has none."""
    return next((name_text(member.name) for member in members(file, path, UNKNOWN_SIZE) if member.plain), "")


def is_for_people(name: str) -> bool:
    """Whether a file is a README, a licence, code or a document, by its name."""
    return is_remark(os.fsencode(name)) or os.path.splitext(name)[1].lower() in _CODE


def says_nothing(name: str, head: bytes) -> bool:
    """Whether a file is for people, by its name or as it is written in sentences, and labels no image.

    `head`: its first bytes.
    """
    if is_for_people(name):
        return True
    if os.path.splitext(name)[1].lower() not in _TEXTS or recognise_annotations(head) is not None:
        return False
    lines = head.splitlines()[:20]
    return not head or any(len(_WORD.findall(line)) >= _SENTENCE for line in lines)
