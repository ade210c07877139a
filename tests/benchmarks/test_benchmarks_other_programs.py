"""`make peers`: what a script says, right or wrong, and the table made of it. The programs are not installed."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from repository import ROOT

BENCHMARKS = ROOT / "benchmarks"
SCRIPTS = sorted(path for path in (BENCHMARKS / "programs").glob("*.py") if path.stem != "program")

# A program that reads all, one that loses a record, one that dies, one that compares nothing; and prints of their own.
SCRIPT = """
from program import Data, check, main

@check("Reader", "pip", "read('DIR/train*')", "a note")
def reads(data):
    print("noise")
    assert len(data.files("train")) == 2
    data.compare("train", data.values("train", "name", "label"), "name", "label")

@check("Loser", "nobody-has-this", "lose()")
def loses(data):
    data.compare("train", data.values("train", "name")[1:], "name")

@check("Twice", "pip", "twice()")
def twice(data):
    data.compare("train", data.values("train", "label") * 2, "label")

@check("Dies", "pip", "die()")
def dies(data):
    raise SystemExit("no | more")

@check("Idle", "pip", "idle()")
def idle(data):
    pass

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import other_programs  # type: ignore[import-not-found]

    return other_programs


def test_each_script_says_what_it_needs(runner: Any) -> None:
    assert len(SCRIPTS) >= 12
    for path in SCRIPTS:
        needed = runner.requirements(path)
        pinned = [one for one in needed if "==" in one or "<" in one]
        assert pinned, path
        made = {node.func.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)}  # fmt: skip
        assert {"check", "main"} <= made, path


def test_what_is_read_is_compared_record_by_record(runner: Any, tmp_path: Path) -> None:
    photos = tmp_path / "photos" / "1.0.0"
    (photos / "index").mkdir(parents=True)
    for name in ("train-00000-of-00002.tfrecord", "train-00001-of-00002.tfrecord", "test-00000-of-00001.tfrecord"):
        (photos / name).touch()
    records = [{"name": f"{n}.jpg", "label": n % 2, "bytes": str(n)} for n in range(6)]
    (tmp_path / "expected.json").write_text(json.dumps({"photos": {"train": records}}))
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py", str(tmp_path)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(BENCHMARKS / "programs")},
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["error"] for row in rows] == [
        "",
        "DifferentError: 5 of 6 records of train; 1 missing, 0 others",
        "DifferentError: 12 of 6 records of train; 0 missing, 6 others 0",
        "SystemExit: no | more",
        "DifferentError: nothing was compared",
    ]
    assert rows[0]["compared"] == {"name": 6, "label": 6}
    assert rows[1]["version"] == ""
    absent = {"program": "absent", "version": "", "call": "", "note": "", "compared": {}, "error": "no wheel"}
    lines = runner.table({"script": rows, "other": [absent | {"absent": True}]}).splitlines()
    assert len(lines) == 2 + 6
    assert "| absent |  |  | no wheel |" in lines
    assert re.fullmatch(r"\| Reader \| \S+ \| `read\('DIR/train\*'\)` \| 6 records: name, label; a note \|", lines[6])
    assert "**SystemExit: no \\| more**" in lines[3]
    some = rows[0] | {"compared": {"id": 32, "boxes": 16, "name": 32}, "note": ""}
    assert "| 32 records: id, name; 16 records: boxes |" in runner.table({"script": [some]})


def test_the_table_takes_its_place_in_the_page(runner: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{runner.BEGIN}\nold\n\n{runner.END}\n\nafter\n")
    monkeypatch.setattr(runner, "PAGE", page)
    for _ in range(2):
        runner.write_page({})
        assert page.read_text() == f"before\n\n{runner.BEGIN}\n{runner.table({})}\n{runner.END}\n\nafter\n"


def test_the_page_has_a_row_for_each_check() -> None:
    page = (ROOT / "docs" / "other-programs.md").read_text()
    for path in SCRIPTS:
        for program in re.findall(r'@check\(\s*"([^"]+)"', path.read_text()):
            assert f"| {program} |" in page, f"{path.name}: run `make peers`"
