"""Kills an export at chosen operations on storage, each time in a process of its own, and runs it again.

    python export_kill_trials.py DATASET PLACE FORMAT EVERY

A script, as it forks. Files are written by several threads: which operation is the n-th differs from run to run, how
many there are does not. With EVERY > 1 one of so many is a trial, but at least one of each kind. Prints a line of JSON.
"""

import sys
from pathlib import Path
from typing import Any

from shardfeed.converters import export

from kill_trials import fails_again, kill_everywhere
from storage_ops import Operation, watched
from trees import tree


def main(dataset: Path, place: Path, to: Any, every: int) -> None:
    def make(out: Path) -> object:
        return export(dataset, out, to, drop="all")

    def wrong(at: Path) -> str:
        found = tree(at / "out") if (at / "out").exists() else None
        if found not in (None, expected):
            return "the output is neither absent nor complete"
        # Nobody else removes a lock file that a killed run left beside a finished export.
        return fails_again(make, at, expected, found is not None, "" if found is None else ".out.lock")

    whole = place / "whole"
    whole.mkdir(parents=True)
    operations: list[Operation] = []
    with watched(whole, operations.append):
        make(whole / "out")
    expected = tree(whole / "out")

    def kind(i: int) -> str:
        return operations[i].name + f" {i}" * (operations[i].path.count("/") <= 4)

    kill_everywhere(make, place, operations, wrong, every, kind=kind)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
