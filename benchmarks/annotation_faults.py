"""Faulty annotations, read by shardfeed and by others: `python benchmarks/annotation_faults.py [NAME ...]`.

Each fault of `faults/faults.py` is made on a small dataset; each script of `faults/` reads all of them with one program
in an environment of its own. What came of the faulty thing is decided by what was read and what was said, by the same
rule for all (see `outcome`). The tables of docs/benchmarks.md are made of it.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from environments import ENVIRONMENTS, ROOT, NotInstallableError, clean_environment, environment_python, versions
from faults.faults import FAULTS, IMAGES, OBJECTS, Fault, make_dataset
from other_programs import requirements

SCRIPTS = Path(__file__).parent / "faults"
RESULTS = Path(__file__).parent / "results" / "annotation_faults.json"
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- made by benchmarks/annotation_faults.py -->\n", "<!-- the end of what it makes -->"
# Script -> (name in the table, package).
PROGRAMS = {
    "shardfeed_reads": ("shardfeed", ""),
    "fiftyone_reads": ("FiftyOne", "fiftyone"),
    "datumaro_reads": ("Datumaro", "datumaro"),
    "supervision_reads": ("supervision", "supervision"),
    "panlabel_reads": ("panlabel", "panlabel"),
    "model_garden_reads": ("Model Garden", "tf-models-official"),
}
TITLES = {"COCO": "COCO", "YOLO": "YOLO", "VOC": "Pascal VOC"}
BASES = {-1: ("COCO", False), -2: ("COCO", True), -3: ("YOLO", False), -4: ("VOC", False)}  # without a fault
_SECONDS = 900  # for one run of a script
# Raised where a program did not expect what it met: a bare key or index in their messages is no explanation.
_UNMEANT = re.compile(
    r"(Key|Index|Type|Attribute|ZeroDivision|Assertion|Overflow|UnboundLocal|Recursion|Memory)Error|SystemExit|died"
)
# A message with a number names the entry, wherever counting starts.
_NUMBERED = re.compile(r"(annotation|image|category) '?\d+")
_PLACE = re.compile(r"entry \d+|line \d+|column \d+|char \d+|offset \d+|byte \d+")  # in the only file there is


def outcome(fault: Fault, row: dict[str, Any], base: str) -> str:
    """Classify how a program handled the fault; `base`: its output for the dataset without a fault.

    reported: a message names the annotation, image or file. no location: it stopped, with its own message that does
    not say where. crash: it stopped with an exception that points to a bug of the program. dropped: it read fewer
    images or objects than there are, without a message. kept: it read everything, without a message. For a valid
    dataset, kept is the right outcome; refused: it stopped with its own message.
    """
    known = set(base.splitlines())
    said = "\n".join(line for line in row["said"].splitlines() if line not in known)
    text = f"{row['message']}\n{said}"
    named = any(name in text for name in fault.named) or bool(_NUMBERED.search(text))
    named = named or (fault.format == "COCO" and bool(_PLACE.search(text)))
    less = row["objects"] < fault.objects or row["images"] < fault.images
    if row["error"]:
        if _UNMEANT.fullmatch(row["error"]):
            return "crash"
        return "refused" if fault.sound else "reported" if named else "no location"
    if fault.sound:
        return "kept" if not less else "refused" if named else "dropped"
    return "reported" if named else "dropped" if less else "kept"


def run(script: str, cases: list[list[Any]], scratch: Path) -> tuple[dict[int, dict[str, Any]], str]:
    """(what a program did, by number of the case; its version). Raises NotInstallableError."""
    path = SCRIPTS / f"{script}.py"
    if PROGRAMS[script][1]:
        python = environment_python(f"faults-{script.removesuffix('_reads')}", requirements(path))
        version = versions(python, [PROGRAMS[script][1]])[PROGRAMS[script][1]]
    else:
        python, version = sys.executable, ""
    environment = clean_environment() | {"CUDA_VISIBLE_DEVICES": "", "HOME": str(scratch)}
    found: dict[int, dict[str, Any]] = {}
    left = cases
    while left:
        listed, results = scratch / "cases.json", scratch / "results.jsonl"
        listed.write_text(json.dumps(left))
        results.write_text("")
        command = [python, str(path), str(listed), str(results)]
        done = subprocess.run(
            command, env=environment, cwd=scratch, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        rows = [json.loads(line) for line in results.read_text().splitlines()]
        finished = {row["case"]: row for row in rows if "error" in row}
        started = [row["case"] for row in rows if "error" not in row]
        found |= finished
        if not started and left:
            if done.returncode:
                raise NotInstallableError(f"it does not start: {done.stderr.strip().splitlines()[-1:]}")
            break
        last = started[-1]
        if last in finished:
            break
        found[last] = {"case": last, "images": 0, "objects": 0, "error": "died", "message": "", "said": ""}
        left = [case for case in left if case[0] > last]
    return found, version


def evaluate(script: str, root: Path) -> dict[str, Any]:
    """Outcomes of a program by number of the fault, and the version; "absent" where it could not be installed."""
    cases: list[list[Any]] = [[n, form, str(root / f"base_{form}"), masks] for n, (form, masks) in BASES.items()]
    cases += [[number, fault.format, str(root / str(number)), fault.masks] for number, fault in enumerate(FAULTS)]
    with tempfile.TemporaryDirectory() as scratch:
        try:
            rows, version = run(script, sorted(cases), Path(scratch))
        except NotInstallableError as error:
            return {"absent": str(error), "version": "", "outcomes": {}, "rows": {}}
    for row in rows.values():  # the path of the dataset is no message
        for key in ("message", "said"):
            row[key] = re.sub(re.escape(str(root)) + r"/\w+", "", row[key])
    outcomes = {}
    for number, fault in enumerate(FAULTS):
        base = rows.get(next(n for n, of in BASES.items() if of == (fault.format, fault.masks)))
        if number not in rows or base is None:
            continue
        # It must read the sound dataset, or what it does with others says nothing.
        if base["error"] or (base["images"], base["objects"]) != (IMAGES, OBJECTS):
            sound = base["message"] or f"{base['images']} images, {base['objects']} objects"
            print(f"{script}: the {fault.format} dataset without a fault: {sound}", file=sys.stderr)
            outcomes[number] = "unreadable"
            continue
        outcomes[number] = outcome(fault, rows[number], base["said"])
    return {"absent": "", "version": version, "outcomes": outcomes, "rows": rows}


def tables(results: dict[str, Any]) -> str:
    """The tables of the page: sums first, then each fault."""
    names = [name for name in PROGRAMS if name in results and not results[name]["absent"]]
    titles = [f"{PROGRAMS[name][0]} {results[name]['version']}".strip() for name in names]
    head = f"| | {' | '.join(titles)} |\n|---|{'---|' * len(names)}\n"
    right = sum(fault.sound for fault in FAULTS)
    lines = [f"{len(FAULTS)} cases: {len(FAULTS) - right} faults, and {right} unusual but valid files.\n"]
    lines.append(head + "\n".join(_sums(results, names)) + "\n")
    for form, title in TITLES.items():
        lines.append(f"### {title}\n")
        rows = []
        for number, fault in enumerate(FAULTS):
            if fault.format != form:
                continue
            cells = [results[name]["outcomes"].get(str(number), "") for name in names]
            shown = [f"**{cell}**" if cell in ("dropped", "crash") else cell for cell in cells]
            rows.append(f"| {fault.name}{' *(valid)*' if fault.sound else ''} | {' | '.join(shown)} |")
        lines.append(head + "\n".join(rows) + "\n")
    absent = [
        f"{PROGRAMS[name][0]}: {results[name]['absent']}" for name in PROGRAMS if results.get(name, {}).get("absent")
    ]
    return "\n".join([*lines, *absent])


def _sums(results: dict[str, Any], names: list[str]) -> list[str]:
    rows = []
    for sound, what in ((False, "faults"), (True, "valid")):
        counts = []
        for name in names:
            of_program = results[name]["outcomes"]
            counts.append(
                Counter(of_program[str(n)] for n, f in enumerate(FAULTS) if f.sound is sound and str(n) in of_program)
            )
        for kind in ("reported", "refused", "no location", "crash", "dropped", "kept", "unreadable"):
            if any(count[kind] for count in counts):
                rows.append(f"| {what}: {kind} | {' | '.join(str(count[kind]) for count in counts)} |")
    return rows


def write_page(results: dict[str, Any]) -> None:
    """Put the tables where the page has its own."""
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{tables(results)}\n{END}{rest.split(END)[1]}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the scripts, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*PROGRAMS, []], help="scripts of faults/; all of them")
    parser.add_argument("--remove", action="store_true", help="remove each environment behind it; they take gigabytes")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="make the datasets there, to look at")
    args = parser.parse_args(arguments)
    results = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    with tempfile.TemporaryDirectory() as temporary:
        root = (args.keep or Path(temporary)).resolve()
        for form in TITLES:
            nothing = Fault("", form, lambda _: None, OBJECTS, IMAGES, True)
            make_dataset(nothing, root / f"base_{form}")
        for number, fault in enumerate(FAULTS):
            make_dataset(fault, root / str(number))
        for name in args.names or PROGRAMS:
            results[name] = json.loads(json.dumps(evaluate(name, root)))  # keys are texts, as they are read back
            counts = Counter(results[name]["outcomes"].values())
            print(f"{name}: {results[name]['absent'] or dict(counts)}", flush=True)
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(results, indent=1))
            if args.remove:
                shutil.rmtree(ENVIRONMENTS / f"faults-{name.removesuffix('_reads')}", ignore_errors=True)
    if PAGE.is_file():
        write_page(results)
    return 0


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.exit(main())
