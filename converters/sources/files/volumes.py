"""Archives in several volumes: data.zip.001, data.z01 beside data.zip, data.part1.rar, data.tar.gz.aa as `split` names.

They are not read; the error says which they are, what is missing, and how to join them.
"""

import os
import re
import shlex
import struct
from typing import NamedTuple

from shardfeed.converters.sources.files.listing import ARCHIVE
from shardfeed.converters.sources.guard import open_regular
from shardfeed.errors import UsageError, escape
from shardfeed.text import number, some

_ARCHIVE = ARCHIVE.pattern.removesuffix(r"\Z")
# Not one digit alone: a second download of data.zip is data.zip.1.
_OF_BYTES = re.compile(
    rf"(?P<before>(?P<whole>.+{_ARCHIVE})[.-]?(?P<word>part[-_.]?)?)(?P<number>[0-9]{{2,4}}|(?(word)[0-9]|(?!))|[a-z]{{2,3}})(?P<after>)",
    re.I,
)
_OF_ZIP = re.compile(r"(?P<before>(?P<whole>.+)\.z)(?P<number>[0-9]{2,3})(?P<after>)", re.I)
_OF_RAR = re.compile(r"(?P<before>(?P<whole>.+)\.part)(?P<number>[0-9]{1,4})(?P<after>\.rar)", re.I)
_OLD_RAR = re.compile(r"(?P<before>(?P<whole>.+)\.r)(?P<number>[0-9]{2})(?P<after>)", re.I)
_ENDS = {_OF_BYTES: "", _OF_ZIP: ".zip", _OF_RAR: ".rar", _OLD_RAR: ".rar"}
_END_OF_ZIP = b"PK\5\6"
_LONGEST_END = 65_557  # bytes from the end of central directory to the end of a zip, with the longest comment


class _Volume(NamedTuple):
    """Parts of the name of a volume: `before`, `number` and `after` are the name, `whole` that of the archive."""

    form: re.Pattern[str]
    whole: str
    before: str
    number: str
    after: str

    @property
    def name(self) -> str:
        return self.before + self.number + self.after


def check_volumes(path: str) -> None:
    """Raise UsageError for a volume of an archive, and for the name of an archive of which only volumes are there."""
    folder, name = os.path.split(os.fspath(path).rstrip("/"))
    volume = _volume(name)
    if volume is not None and os.path.isfile(path):
        _refuse(path, folder, volume)
    if name.lower().endswith(".zip") and os.path.isfile(path):
        _check_last_of_zip(path, folder, name)
    if not os.path.lexists(path) and re.search(_ARCHIVE + r"\Z", name, re.I):
        _check_whole(path, folder, name)


def check_volumes_inside(folder: str, names: tuple[str, ...]) -> None:
    """Raise UsageError for a folder whose files are volumes of archives."""
    for name in names:
        path = os.path.join(folder, name)
        volume = _volume(name)
        if volume is None or not os.path.isfile(path):
            continue
        if os.path.exists(os.path.join(folder, volume.whole)) and volume.form is not _OF_ZIP:
            continue  # joined already
        _refuse(path, folder, volume)


def check_archives_inside(folder: str, names: tuple[str, ...], ends: tuple[str, ...]) -> None:
    """Raise UsageError for a folder of archives, one for each class or split, which are not unpacked here."""
    archives = [name for name in names if name.lower().endswith(ends)]
    if not archives or len(archives) < len(names):
        return
    problem = f"is a folder of {number(len(archives), 'archive')}: {some(archives)}"
    patterns = " ".join(dict.fromkeys(f"*{_end(name, ends)}" for name in archives))
    command = f"cd {shlex.quote(folder)} && zip -0 -q all.zip {patterns}"
    whole = os.path.join(folder, "all.zip")
    remedy = f"put them into one with `{escape(command)}`, and give {escape(whole)}"
    raise UsageError(folder, problem, remedy)


def _end(name: str, ends: tuple[str, ...]) -> str:
    """The end of an archive's name, the longest of those that fit."""
    return name[-max(len(end) for end in ends if name.lower().endswith(end)) :]


def is_of_folder(name: str, folder: str, ends: tuple[str, ...]) -> bool:
    """Whether a file is an archive, or a volume of one, that is called as the folder beside it."""
    volume = _volume(name)
    whole = name if volume is None else volume.whole
    return whole.lower().endswith(ends) and whole[: -len(_end(whole, ends))].casefold() == folder.casefold()


def _volume(name: str) -> _Volume | None:
    """The parts of a name of a volume; None for another name."""
    for form, end in _ENDS.items():
        if found := form.fullmatch(name):
            return _Volume(form, found["whole"] + end, found["before"], found["number"], found["after"])
    return None


def _beside(folder: str, volume: _Volume) -> list[_Volume]:
    """All volumes of the same archive in a folder, in order."""
    names = os.listdir(folder or ".")
    same = [one for one in map(_volume, names) if one and one[:3] == volume[:3]]
    return sorted(same, key=lambda one: (len(one.number), one.number))


def _missing(numbers: list[str]) -> str:
    """The number of the first volume that lacks in a row; "" if none is known to."""
    if all(map(str.isdigit, numbers)):
        counts = sorted(map(int, numbers))
        first = min(counts[0], 1)
        lacking = next((n for n in range(first, counts[-1] + 1) if n not in counts), None)
        return "" if lacking is None else str(lacking).zfill(len(numbers[0]))
    letters = [_count(number) for number in numbers]
    lacking = next((n for n in range(max(letters) + 1) if n not in letters), None)
    return "" if lacking is None else _letters(lacking, len(numbers[0]))


def _count(letters: str) -> int:
    """The number from 0 of letters as `split` counts: aa, ab, ..."""
    found = 0
    for letter in letters.lower():
        found = found * 26 + ord(letter) - ord("a")
    return found


def _letters(number: int, length: int) -> str:
    found = ""
    for _ in range(length):
        number, last = divmod(number, 26)
        found = chr(ord("a") + last) + found
    return found


def _refuse(path: str, folder: str, volume: _Volume) -> None:
    """Raise UsageError for a volume, unless only its name looks like one."""
    volumes = _beside(folder, volume)
    if not volume.number.isdigit() and _count(volumes[0].number) > 0:
        return  # data.zip.asc
    names = [one.name for one in volumes]
    problem = f"is a volume of the archive {escape(volume.whole)}, one of {len(volumes)} here: {some(names)}"
    whole = os.path.join(folder, volume.whole)
    if volume.form is _OF_ZIP and os.path.isfile(whole):
        _check_last_of_zip(whole, folder, volume.whole)  # it says how many there are
    lacking = _missing([one.number for one in volumes])
    if lacking:
        missing = volume.before + lacking + volume.after
    elif volume.form in (_OF_ZIP, _OLD_RAR) and not os.path.exists(whole):
        missing = volume.whole
    else:
        raise UsageError(path, problem, _joining(folder, volume, names))
    raise UsageError(path, f"{problem}; {escape(missing)} is missing", "download or copy it into the same folder")


def _joining(folder: str, volume: _Volume, names: list[str]) -> str:
    """The remedy with the commands that join volumes, or unpack them."""
    whole = os.path.join(folder, volume.whole)
    if volume.form is _OF_ZIP:
        return _joining_zip(whole)
    if whole.lower().endswith((".7z", ".rar")):
        first = whole if volume.form is _OLD_RAR else os.path.join(folder, names[0])
        into = os.path.splitext(whole)[0]
        command = f"7z x {shlex.quote(first)} -o{shlex.quote(into)}"
        return f"unpack it with `{escape(command)}`, and give the folder {escape(into)}"
    parts = " ".join(shlex.quote(os.path.join(folder, name)) for name in names)
    if len(names) > 4 and len({*map(len, names)}) == 1:  # a pattern lists numbers of one length in their order
        parts = shlex.quote(os.path.join(folder, volume.before)) + "?" * len(volume.number)
    return f"join them with `{escape(f'cat {parts} > {shlex.quote(whole)}')}`, and give {escape(whole)}"


def _joining_zip(whole: str) -> str:
    joined = f"{os.path.splitext(whole)[0]}-joined.zip"
    command = f"zip -s 0 -O {shlex.quote(joined)} {shlex.quote(whole)}"
    return f"join them with `{escape(command)}`, and give {escape(joined)}"


def _check_last_of_zip(path: str, folder: str, name: str) -> None:
    """Raise UsageError for the last volume of a zip, whose end says that others come before it."""
    base = os.path.splitext(name)[0]
    try:
        count, is_whole = _volumes_of(path), _begins_as_zip(path)
    except OSError:
        return  # the reader says so
    beside = _beside(folder, _Volume(_OF_ZIP, name, f"{base}.z", "01", ""))
    if count < 2 and (is_whole or not beside):
        return
    names = [one.name for one in beside]
    lacking = [one for one in (f"{base}.z{number:02d}" for number in range(1, count)) if one not in names]
    problem = f"is the last of {count} volumes of an archive" if count > 1 else "is a volume of an archive"
    if lacking:
        raise UsageError(path, f"{problem}, without {some(lacking)}", "download or copy what is missing beside it")
    raise UsageError(path, f"{problem}, with {some(names)}", _joining_zip(path))


def _begins_as_zip(path: str) -> bool:
    with open_regular(path) as file:
        return file.read(2) == b"PK"


def _volumes_of(path: str) -> int:
    """How many volumes a zip has by its end; 1 for what has no such end."""
    with open_regular(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _LONGEST_END))
        tail = file.read()
    place = tail.rfind(_END_OF_ZIP)
    if place < 0 or len(tail) < place + 22:
        return 1
    (number,) = struct.unpack_from("<H", tail, place + 4)
    return 1 if number == 0xFFFF else number + 1  # 0xFFFF: in the fields of Zip64


def _check_whole(path: str, folder: str, name: str) -> None:
    """Raise UsageError for a missing archive, of which the volumes are there."""
    for other in sorted(os.listdir(folder or ".")) if os.path.isdir(folder or ".") else ():
        volume = _volume(other)
        if volume is not None and volume.whole == name and volume.form is not _OF_ZIP:
            _refuse(os.path.join(folder, other), folder, volume)
