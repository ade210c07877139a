"""How a script of this folder reads the datasets with a program, and says what came; the standard library alone.

`annotation_faults.py` runs `python SCRIPT CASES.json RESULTS.jsonl`. CASES is a list of `[number, format, folder,
masks]`; the last says whether masks are wanted. For each, a line of RESULTS says which images and how many objects the
program read, what it raised, and what it printed.
"""

import contextlib
import json
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

# Reads a dataset of a format in a folder, with masks or without, and gives (images, objects).
Reader = Callable[[str, Path, bool], tuple[int, int]]


@contextlib.contextmanager
def _printed_to(path: str) -> Iterator[None]:
    """Whatever is written to stdout and stderr, by Python and by libraries of other languages, goes into a file."""
    kept = os.dup(1), os.dup(2)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        for number in (1, 2):
            os.dup2(file, number)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, before in zip((1, 2), kept, strict=True):
            os.dup2(before, number)
            os.close(before)
        os.close(file)


def main(read: Reader, formats: tuple[str, ...] = ("COCO", "YOLO", "VOC")) -> None:
    """Read every dataset whose format the program has."""
    cases, results = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    warnings.simplefilter("always")
    logging.getLogger().setLevel(logging.INFO)
    with tempfile.TemporaryDirectory() as here:
        said = os.path.join(here, "said")
        for number, form, folder, masks in cases:
            if form not in formats:
                continue
            with open(results, "a") as file:  # a process that dies here has died of this one
                file.write(json.dumps({"case": number}) + "\n")
            row: dict[str, object] = {"case": number, "images": 0, "objects": 0, "error": "", "message": ""}
            with _printed_to(said):
                try:
                    row["images"], row["objects"] = read(form, Path(folder), masks)
                except BaseException as raised:
                    causes = [raised]
                    while causes[-1].__cause__ is not None:
                        causes.append(causes[-1].__cause__)
                    row["error"] = type(raised).__name__
                    row["message"] = " | ".join(f"{type(cause).__name__}: {cause}" for cause in causes)[:2000]
            row["said"] = Path(said).read_text(errors="replace")[-20000:]
            with open(results, "a") as file:
                file.write(json.dumps(row) + "\n")
