"""The table of faulty annotations: faults are made, one rule says what came of them, and who dies is survived."""

import ast
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from repository import ROOT

BENCHMARKS = ROOT / "benchmarks"
SCRIPTS = sorted((BENCHMARKS / "faults").glob("*_reads.py"))

# A program that prints, that raises of its own, that makes a mistake of its own, and that dies.
PROGRAM = """
import os
from reading import main

def read(form, folder, masks):
    name = folder.name
    print("noise")
    if name == "told":
        raise ValueError("annotation 90210 is bad")
    if name == "crash":
        raise KeyError("bbox")
    if name == "dies":
        os._exit(7)
    return (3, 4) if name.startswith("base") else (3, 5)

main(read, ("COCO",))
"""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import annotation_faults  # type: ignore[reportMissingImports]  # of the folder above

    return annotation_faults


def test_the_faults_are_enough_and_each_is_made(module: ModuleType, tmp_path: Path) -> None:
    faults = module.FAULTS
    assert sum(not fault.sound for fault in faults) >= 40
    assert len({(fault.format, fault.name) for fault in faults}) == len(faults)
    assert Counter(fault.format for fault in faults).keys() == module.TITLES.keys()
    for form in module.TITLES:
        module.make_dataset(module.Fault("", form, lambda _: None, 4, 3, True), tmp_path / f"base_{form}")
    for number, fault in enumerate(faults):
        module.make_dataset(fault, tmp_path / str(number))
        files = [{path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
                 for root in (tmp_path / str(number), tmp_path / f"base_{fault.format}")]  # fmt: skip
        assert files[0] != files[1], fault.name


@pytest.mark.parametrize(
    ("outcome", "sound", "row"),
    [
        ("reported", False, {"error": "ValueError", "message": "ValueError: scene_b.jpg: no box"}),
        ("reported", False, {"said": "warning: annotation 90210 is skipped\n", "objects": 4}),
        ("no location", False, {"error": "ValueError", "message": "ValueError: a box is bad"}),
        ("crash", False, {"error": "KeyError", "message": "KeyError: 90210"}),
        ("crash", True, {"error": "died"}),
        ("dropped", False, {"objects": 4}),
        ("dropped", False, {"images": 2}),
        ("dropped", True, {"objects": 4}),
        ("dropped", False, {"objects": 4, "said": "annotation 90210 as always\n"}),
        ("kept", False, {}),
        ("kept", True, {"said": "note: annotation 90210 was clipped\n"}),
        ("refused", True, {"error": "ValueError", "message": "ValueError: scene_b.jpg: no box"}),
    ],
)
def test_one_rule_says_what_came_of_it(module: ModuleType, outcome: str, sound: bool, row: dict[str, Any]) -> None:
    fault = module.Fault("", "COCO", lambda _: None, 5, 3, sound, ("scene_b", "90210"))
    found = {"images": 3, "objects": 5, "error": "", "message": "", "said": ""} | row
    assert module.outcome(fault, found, "annotation 90210 as always\n") == outcome


def test_a_program_that_dies_is_started_again_behind_the_case(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "ours_reads.py").write_text(PROGRAM)
    (scripts / "reading.py").write_text((BENCHMARKS / "faults" / "reading.py").read_text())
    monkeypatch.setattr(module, "SCRIPTS", scripts)
    monkeypatch.setattr(module, "PROGRAMS", {"ours_reads": ("Ours", "")})
    cases = [[i, "COCO", f"/x/{name}", False] for i, name in enumerate(("told", "dies", "crash", "fine"))]
    found, _ = module.run("ours_reads", [*cases, [4, "YOLO", "/x/fine", False]], tmp_path)
    assert {n: row["error"] for n, row in found.items()} == {0: "ValueError", 1: "died", 2: "KeyError", 3: ""}
    assert found[3]["said"] == "noise\n"
    assert found[3]["objects"] == 5


def test_the_table_names_programs_that_are_absent(module: ModuleType) -> None:
    outcomes = {str(number): "kept" if fault.sound else "dropped" for number, fault in enumerate(module.FAULTS)}
    results = {
        "shardfeed_reads": {"absent": "", "version": "", "outcomes": outcomes},
        "panlabel_reads": {"absent": "no wheel", "version": "", "outcomes": {}},
    }
    table = module.tables(results)
    faults = sum(not fault.sound for fault in module.FAULTS)
    assert f"| faults: dropped | {faults} |" in table
    assert "panlabel: no wheel" in table
    assert table.count("**dropped**") == faults


@pytest.mark.parametrize("script", SCRIPTS, ids=[path.stem for path in SCRIPTS])
def test_scripts_say_what_they_need_and_compile(module: ModuleType, script: Path) -> None:
    ast.parse(script.read_text())
    name, package = module.PROGRAMS[script.stem]
    needed = module.requirements(script) if package else []
    assert not package or any(one.startswith(f"{package}==") for one in needed), name


def test_the_page_has_room_for_the_tables(module: ModuleType) -> None:
    page = module.PAGE.read_text()
    assert page.index(module.BEGIN) < page.index(module.END)
