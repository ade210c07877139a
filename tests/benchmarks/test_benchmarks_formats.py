"""The tables of docs/formats.md, made of figures that are made up here; and the page's own marks."""

import json
import subprocess
import sys
from typing import Any

from repository import ROOT

RATE = {"images_per_s": 12345.6, "wall_us": 81.0, "cpu_us": 80.25, "noise": 0.1}
MODE = {"sequential": RATE, "random": RATE, "first_batch_s": 0.0123, "peak_bytes": 41_000_000}
ONE = {
    "bytes": 130_000,
    "write": RATE,
    "decoded": RATE,
    "modes": dict.fromkeys(("disk", "cache", "mapped", "preloaded"), MODE),
}
WITH_RANDOM = {"bytes": 120_000, "sequential": RATE, "random": RATE}
BOTH = {"bytes": 120_000, "sequential": RATE}
REPORT = {
    "title": "Photos",
    "images": 2,
    "image_bytes": 128_000,
    "rounds": 3,
    "decode": RATE,
    "dropped": True,
    "formats": {"tfrecord": ONE, "mds": ONE},
    "libraries": [
        {"format": "tfrecord", "library": "TensorFlow", "codec": "GZIP", "plain": BOTH, "compressed": BOTH},
        {
            "format": "mds",
            "library": "streaming",
            "codec": "zstd",
            "plain": BOTH | {"random": RATE},
            "compressed": BOTH,
        },
    ],
    "libraries_skipped": {"pyarrow": "not installed"},
    "advice": ["Keep tfrecord."],
}
CODE = """
import json, sys

sys.path.insert(0, sys.argv[1])
import formats

print(formats.table(json.load(sys.stdin)))
"""
MACHINE = {"cpu": "a CPU", "cores": 2, "kernel": "6", "python": "3.11"}


def made(report: dict[str, Any]) -> str:
    results = {"date": "2026-01-02", "machine": MACHINE, "packages": {"numpy": "2"}, "kinds": [report]}
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); import formats; print(formats.table(json.load(sys.stdin)))"
    )
    command = [sys.executable, "-c", code, str(ROOT / "benchmarks")]
    return subprocess.run(command, input=json.dumps(results), capture_output=True, text=True, check=True).stdout


def test_the_tables() -> None:
    text = made(REPORT)
    assert "2026-01-02, a CPU, 2 cores, Linux 6, Python 3.11, numpy 2; one thread, medians of 3 " in text
    assert "2 images of 64.0 kB; to decode one takes 80.2 µs of CPU. Rates differed by ± 10% " in text
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows].count("mds") == 2
    assert ["mds", "65.00", *["12,346"] * 8] in rows
    assert any(row[0] == "mds: streaming" and row[3] == "12,346" and row[4] == "zstd" for row in rows)
    assert any(row[0] == "tfrecord: TensorFlow" and row[3] == "" and row[5] == "60.00" for row in rows)
    tables = [part.splitlines() for part in text.split("\n\n") if part.startswith("|")]
    assert [len({line.count("|") for line in lines}) for lines in tables] == [1, 1, 1]
    assert "- pyarrow: not installed" in text
    assert "- Keep tfrecord." in text
    assert "may be memory" not in text
    assert "may be memory" in made(REPORT | {"dropped": None})


def test_the_page_has_its_marks_once() -> None:
    page = (ROOT / "docs" / "formats.md").read_text()
    script = (ROOT / "benchmarks" / "formats.py").read_text()
    for mark in ("<!-- made by benchmarks/formats.py -->", "<!-- the end of what it makes -->"):
        assert page.count(mark) == 1
        assert mark in script
