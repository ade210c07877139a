"""Whatever is in a source, opening it gives a source or one of our errors, soon and in little memory.

A seeded generator damages a small valid input of each reader, by its structure and by its bytes. A failure is found
again with its SHARDFEED_SEED.
"""

import gzip
import hashlib
import io
import json
import os
import random
import re
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile import Opener, opener
from hostile_seeds import SEEDS

from shardfeed.converters.sources.readers import READERS
from shardfeed.formats.tfrecord import FOOTER_BYTES, HEADER_BYTES, frame, payload_length

pytestmark = pytest.mark.promise("51", "52")
INPUTS, MANY_INPUTS = 150, 2000
NUMBERS = (0, 1, 2, 127, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1)
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**31, 2**63, 10**30, 10**400, 0.5, -1e308, float("nan"), float("inf")),
    *("", "x", "../../outside/secret", "/etc/passwd", "a" * 70_000, "\ud800", "\0"),
    *([], {}, [[]], {"": None}, [None] * 3),
)
TOKENS = (
    *(b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b'"', b"\n", b",", b"\t", b"\r", b"\x80\x02", b"\x1f\x8b"),
    *(b"[" * 20_000, b"{" * 300, b'{"a":' * 5_000, b"-" * 9_000, b"9" * 5_001, b"(" * 5_000, b"<x>" * 3_000),
    *(b"NaN", b"1e999", b"-1", b"../../outside/secret.jpg", b"/etc/passwd"),
    *(b"*dog", b"&a [*a]", b"!!merge <<: *dog", b"<!DOCTYPE x [<!ENTITY a 'a'>]>"),
)
LONG = 2 << 20  # bytes of a line
_DIGITS = re.compile(rb"\d+")


def change_bytes(rng: random.Random, data: bytes) -> bytes:
    """Some bytes changed, cut, doubled, moved; lengths and counts replaced; as text: lines and numbers."""
    size = len(data)
    at = rng.randrange(size) if size else 0
    token = rng.choice(TOKENS)
    number = rng.choice(NUMBERS)
    kind = rng.randrange(14)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :] if size else token
    if kind == 2:
        return data[:at] + token + data[at:]
    if kind == 3:
        return data[:at] + token + data[at + len(token) :]
    if kind == 4:
        return data[:at] + data[at + rng.randrange(1, 64) :]
    if kind == 5:
        return data[:at] + data[at : at + 64] * rng.choice((2, 100)) + data[at:]
    if kind in (6, 7):  # a length, in the order of bytes that most formats have, where it may be aligned
        width = rng.choice((1, 2, 4, 8))
        at = min(at, 200) // width * width if rng.random() < 0.6 else at
        packed = (number % (1 << 8 * width)).to_bytes(width, rng.choice(("little", "big")))
        return data[:at] + packed + data[at + width :]
    if kind in (8, 9):
        found = list(_DIGITS.finditer(data))
        if not found:
            return data + token
        digits = rng.choice(found)
        value = b"%d" % rng.choice((number, -number, 10**25, int(digits[0][:30]) + 1))
        value = b"9" * 5_001 if rng.random() < 0.2 else value
        return data[: digits.start()] + value + data[digits.end() :]
    if kind == 10:
        lines = data.splitlines(keepends=True)
        rng.shuffle(lines)
        return b"".join([*lines, *lines[: rng.randrange(2)]])
    if kind == 11:
        return rng.choice((b"", b"\0" * size, b"\xff" * size, data[::-1]))
    if kind == 12:
        return data.decode("latin-1").encode(rng.choice(("utf-16", "utf-32", "utf-8-sig")))
    return data[:at] + b"a" * LONG + data[at:]


def change_json(rng: random.Random, value: Any) -> Any:
    """A value of another type, size or depth in the place of one that is drawn; keys removed, added, doubled."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        if rng.random() < 0.15:
            return {other: one for other, one in value.items() if other != key}
        return {**value, key: change_json(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.85:
        i = rng.randrange(len(value))
        if rng.random() < 0.15:
            return value[:i] + rng.choice(([], [value[i]] * 3)) + value[i + 1 :]
        return [*value[:i], change_json(rng, value[i]), *value[i + 1 :]]
    if rng.random() < 0.1:
        for _ in range(rng.choice((3, 900))):
            value = [value]
        return value
    return rng.choice(VALUES)


def change_text_of_json(rng: random.Random, data: bytes) -> bytes:
    """A JSON file, or one line of it, changed by its structure."""
    try:
        return json.dumps(change_json(rng, json.loads(data))).encode("utf-8", "surrogatepass")
    except ValueError:
        lines = data.splitlines()
        i = rng.randrange(len(lines))
        lines[i] = json.dumps(change_json(rng, json.loads(lines[i]))).encode("utf-8", "surrogatepass")
        return b"\n".join(lines)


def change_gzip(rng: random.Random, data: bytes) -> bytes:
    """Other content, compressed as well."""
    return gzip.compress(change_bytes(rng, gzip.decompress(data)), 1)


def change_zip(rng: random.Random, data: bytes) -> bytes:
    """Another member, in whole archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        changed = rng.randrange(len(old.namelist()))
        for i, name in enumerate(old.namelist()):
            new.writestr(name, change_bytes(rng, old.read(name)) if i == changed else old.read(name))
    return out.getvalue()


def change_records(rng: random.Random, data: bytes) -> bytes:
    """A record that no CRC gives away, or records in another order and number."""
    payloads, at = [], 0
    while at < len(data):
        size = payload_length(data[at : at + HEADER_BYTES], len(data), "seed")
        payloads.append(data[at + HEADER_BYTES : at + HEADER_BYTES + size])
        at += HEADER_BYTES + size + FOOTER_BYTES
    i = rng.randrange(len(payloads))
    payloads[i] = change_bytes(rng, payloads[i])
    return b"".join(map(frame, payloads))


def change_tar(rng: random.Random, data: bytes) -> bytes:
    """A header that agrees with its checksum."""
    starts = [at for at in range(0, len(data), 512) if data[at + 257 : at + 262] == b"ustar"]
    at = rng.choice(starts)
    block = bytearray(data[at : at + 512])
    where, texts = rng.choice(
        [
            (0, (b"../../outside/x.jpg", b"/etc/passwd", b"\xff\xfe.jpg", b"", b"a" * 100, b"a.jpg/b.cls")),
            (124, (b"77777777777\0", b"\x80" + b"\xff" * 11, b"00000000000\0", b"not octal  \0", b"00000000777\0")),
            (156, (b"1", b"2", b"3", b"5", b"6", b"S", b"L", b"K", b"x", b"g", b"7")),
            (157, (b"../../outside/secret.jpg\0",)),
        ]
    )
    text = rng.choice(texts)
    block[where : where + len(text)] = text
    block[148:156] = b"        "
    block[148:156] = b"%06o\0 " % sum(block)
    return data[:at] + bytes(block) + data[at + 512 :]


def change_file(rng: random.Random, path: Path) -> None:
    """The file is changed by its structure where it has one that is known, or by its bytes."""
    data = path.read_bytes()
    by_end: dict[str, Callable[[random.Random, bytes], bytes]] = {
        ".json": change_text_of_json,
        ".jsonl": change_text_of_json,
        ".gz": change_gzip,
        ".npz": change_zip,
        ".tfrecord": change_records,
        ".tar": change_tar,
    }
    change = by_end.get(path.suffix) if rng.random() < 0.7 else None
    try:
        changed = (change or change_bytes)(rng, data)
    except Exception:  # it has no such structure since the last change
        changed = change_bytes(rng, data)
    path.write_bytes(changed)


def change_entry(rng: random.Random, path: Path, outside: Path) -> None:
    """Something else in the place of a file: nothing, a link, a folder, a pipe, two of it, another name."""
    kind = rng.randrange(8)
    if kind in (0, 1, 2, 3):
        path.unlink()
    if kind == 0:
        path.symlink_to(outside / "secret.jpg")
    elif kind == 1:
        path.symlink_to(path.name)
    elif kind == 2:
        path.mkdir()
    elif kind == 3:
        os.mkfifo(path)
    elif kind == 4:
        (path.parent / f"copy{path.suffix}").write_bytes(path.read_bytes())
    elif kind == 5:
        path.rename(path.parent / os.fsdecode(b"\xff\n" + os.fsencode(path.name)))
    elif kind == 6:
        (path.parent / f"more{rng.randrange(10**6)}").symlink_to(path.parent, target_is_directory=True)
    else:
        (path.parent / f"out{rng.randrange(10**6)}").symlink_to(outside, target_is_directory=True)


def digest(root: Path) -> str:
    """Hash of everything below a folder: names, kinds, links, bytes."""
    found = hashlib.blake2b()
    for path in sorted(root.rglob("*")):
        found.update(os.fsencode(path.relative_to(root)) + b"\0" + b"%o\0" % path.lstat().st_mode)
        if path.is_symlink():
            found.update(os.fsencode(os.readlink(path)))
        elif path.is_file():
            found.update(path.read_bytes())
    return found.hexdigest()


class Generator:
    """Hostile inputs, one after the other, of all seeds in turn."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self._folder, self._rng, self._made = folder, rng, 0
        self.seeds: dict[str, Path] = {}
        self.paths: dict[str, Path] = {}
        self.outside = folder / "outside"
        self.outside.mkdir()
        for name, (make, _) in SEEDS.items():
            root = folder / "seeds" / name.replace(" ", "-")
            root.mkdir(parents=True)
            self.seeds[name], self.paths[name] = root, (make(root) or root).relative_to(root)
        shutil.copy(next(self.seeds["folder"].rglob("*.jpg")), self.outside / "secret.jpg")

    def make(self) -> tuple[str, Path, Path]:
        """The name of a seed, a changed copy of it, and what to open in it; never the seed itself."""
        rng, names = self._rng, list(self.seeds)
        name = names[self._made % len(names)]
        self._made += 1
        root = self._folder / f"input-{self._made}"
        shutil.copytree(self.seeds[name], root)
        before = digest(root)
        while digest(root) == before:
            for _ in range(rng.choice((1, 1, 1, 2, 3))):
                # Images are damaged in other suites; what tells of them is what is read here.
                files = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
                files = [path for path in files if path.suffix not in (".jpg", ".png") or rng.random() < 0.1] or files
                if files and rng.random() < 0.85:
                    change_file(rng, rng.choice(files))
                elif files:
                    change_entry(rng, rng.choice(files), self.outside)
        assert digest(root) != before
        return name, root, root / self.paths[name]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opener]:
    with opener(tmp_path_factory.mktemp("hostile") / "temporary") as found:
        yield found


def test_seeds_are_read_and_are_of_every_reader(hostile: Opener, tmp_path: Path) -> None:
    generator = Generator(tmp_path, random.Random(0))
    for name, root in generator.seeds.items():
        for options in ({}, {"reader": SEEDS[name][1]}):
            found = hostile.open(root / generator.paths[name], **options)
            assert found.said == "read", name
            assert not found.problem()
    assert {reader for _, reader in SEEDS.values()} == {reader.name for reader in READERS}


def sweep(hostile: Opener, folder: Path, seed: int, inputs: int, ways: int) -> Counter[str]:
    """Open so many inputs: by their content and by their reader (`ways` 2), or by these in turn."""
    rng = random.Random(seed)
    generator = Generator(folder, rng)
    said: Counter[str] = Counter()
    problems: list[str] = []
    for i in range(inputs):
        name, root, path = generator.make()
        others = [{}, {"reader": SEEDS[name][1]}]
        for options in others[:ways] if ways > 1 else [others[i // len(SEEDS) % 2]]:
            found = hostile.open(path, generator.outside, **options)
            said[found.said.partition(":")[0].partition("\n")[0]] += 1
            if problem := found.problem():
                problems.append(f"input {i} of {name}, {options}: {problem}")
                print(problems[-1], flush=True)
        shutil.rmtree(root)
    print(dict(said))
    assert not problems, "\n".join(problems)
    assert said["read"], "some are only odd"
    return said


def test_hostile_inputs_end_in_our_errors(hostile: Opener, tmp_path: Path, seed: int) -> None:
    said = sweep(hostile, tmp_path, seed, INPUTS, 1)
    assert said.total() == INPUTS


@pytest.mark.parametrize("name", SEEDS)
def test_a_pipe_is_not_waited_for(name: str, hostile: Opener, tmp_path: Path) -> None:
    make, reader = SEEDS[name]
    path = make(tmp_path) or tmp_path
    files = [file for file in sorted(tmp_path.rglob("*")) if file.is_file() and file.suffix not in (".jpg", ".png")]
    for file in files[:2]:
        data = file.read_bytes()
        file.unlink()
        os.mkfifo(file)
        for options in ({}, {"reader": reader}):
            assert not hostile.open(path, **options).problem()
        file.unlink()
        file.write_bytes(data)


@pytest.mark.torture
def test_many_hostile_inputs(hostile: Opener, tmp_path: Path, seed: int) -> None:
    said = sweep(hostile, tmp_path, seed, MANY_INPUTS, 2)
    assert said.total() == 2 * MANY_INPUTS
