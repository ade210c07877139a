"""Checks of the scripts in this folder and the lines of JSON that report them; standard library only.

A script reads our datasets with another program and compares what came with what was written. Its first lines say what
is installed for it, as `pip` takes it (PEP 723); `other_programs.py` makes the environment and runs
`python SCRIPT ROOT`. ROOT holds the datasets and `expected.json`. Each check prints one line of JSON.
"""

import contextlib
import hashlib
import importlib.metadata
import json
import os
import sys
import traceback
import types
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class DifferentError(Exception):
    """Records that were read differ from those that were written."""


@dataclass
class Data:
    """The datasets: `photos` (JPEGs, splits train, validation and test) and `boxes` (train, with objects).

    Drawn scenes, all in train: `scenes` has objects with masks, `people` has key points, `ground` a class for each
    pixel. `photos` lies as `photos/1.0.0` below ROOT, which is a name and a version to TFDS; `photos` and `scenes` lie
    as `photos-webdataset/1.0.0` and so on in other formats than TFRecord.
    """

    root: Path
    expected: dict[str, dict[str, list[dict[str, Any]]]]  # dataset -> split -> records, in stored order
    compared: dict[str, Counter[str]] = field(default_factory=dict)

    def folder(self, name: str = "photos") -> str:
        return str(self.root / name / "1.0.0")

    def glob(self, pattern: str, name: str = "photos") -> str:
        """Path with a pattern, as a user of the other program types it."""
        return str(self.root / name / "1.0.0" / pattern)

    def files(self, split: str, name: str = "photos") -> list[str]:
        """Files of a split: those that a shell matches with `train*`."""
        return sorted(map(str, Path(self.folder(name)).glob(f"{split}*")))

    def index_of(self, shard: str) -> str:
        path = Path(shard)
        return str(path.parent / "index" / f"{path.stem}.tfindex")

    def values(self, split: str, *keys: str, name: str = "photos") -> list[Any]:
        """Expected values of a split's records, in stored order: the value of a key, or a tuple of several."""
        rows = [tuple(record[key] for key in keys) for record in self.expected[name][split]]
        return [row[0] for row in rows] if len(keys) == 1 else rows

    def compare(self, split: str, found: Iterable[Any], *keys: str, name: str = "photos") -> None:
        """Raise DifferentError unless each record was read as often as stored, with the right values of `keys`."""
        wanted = Counter(map(repr, self.values(split, *keys, name=name)))
        seen = Counter(map(repr, found))
        if seen != wanted:
            missing, foreign = (wanted - seen).total(), (seen - wanted).total()
            example = next(iter(seen - wanted), "")
            raise DifferentError(
                f"{seen.total()} of {wanted.total()} records of {split}; {missing} missing, {foreign} others {example}"
            )
        self.note(f"{name}/{split}", wanted.total(), *keys)

    def note(self, what: str, count: int, *keys: str) -> None:
        for key in keys:
            self.compared.setdefault(key, Counter())[what] = count


def without_operators() -> None:
    """Let torchvision be imported where its compiled operators are missing, which transforms do not use.

    So it is beside a PyTorch without CUDA: two of its modules register the operators, and fail.
    """
    import torch

    if torch.version.cuda is None:
        for name in ("_meta_registrations", "_autograd_registrations"):
            sys.modules[f"torchvision.{name}"] = types.ModuleType(name)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


_checks: list[tuple[Callable[[Data], None], str, str, str, str]] = []


def check(program: str, package: str, call: str, note: str = "") -> Callable[..., Any]:
    """A check: `program` as users call it, whose version is that of `package`, and the call that reads our shards."""

    def add(function: Callable[[Data], None]) -> Callable[[Data], None]:
        _checks.append((function, program, package, call, note))
        return function

    return add


def main() -> None:
    """Run the checks of the script that calls this."""
    root = Path(sys.argv[1])
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what programs print of themselves is no result
    expected = json.loads((root / "expected.json").read_text())
    for function, program, package, call, note in _checks:
        data = Data(root, expected)
        error = ""
        try:
            function(data)
            if not data.compared:
                raise DifferentError("nothing was compared")
        except BaseException as raised:
            traceback.print_exc()
            error = f"{type(raised).__name__}: {raised}".strip().splitlines()[0][:300]
        counts = {key: sum(found.values()) for key, found in data.compared.items()}
        version = ""
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            version = importlib.metadata.version(package)
        row = {"program": program, "package": package, "version": version, "call": call, "note": note}
        print(json.dumps(row | {"compared": counts, "error": error}), file=lines, flush=True)
