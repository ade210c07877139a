"""The command line: exit codes, what it prints, and how fast it starts."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

import shardfeed
from shardfeed.readers import Dataset
from shardfeed.tools.cli import main

from trees import tree

Run = Callable[..., tuple[int, str, str]]


def test_help_names_every_command_and_loads_nothing_heavy() -> None:
    """So that it comes at once: 0.3 s on an idle machine."""
    script = """
import sys
from shardfeed.tools.cli import main
try:
    main(["--help"])
finally:
    assert not {"numpy", "PIL", "tqdm", "multiprocessing", "tensorflow", "torch", "ray"} & sys.modules.keys()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    for name in ("convert", "verify", "inspect", "preview", "demo"):
        assert name in done.stdout


def test_converting_a_few_images_loads_little(folder: Callable[..., Path], tmp_path: Path) -> None:
    """Imports take most of its time."""
    script = """
import os, sys
from shardfeed.tools.cli import main
assert main(["convert", *sys.argv[1:]]) == 0
found = {"tqdm", "importlib.metadata", "numpy.ma", "PIL.ImageColor", "PIL.PngImagePlugin"} & sys.modules.keys()
assert not found, found
assert len(os.listdir("/proc/self/task")) == 1, "numpy has threads"
"""
    paths = [str(folder(2)), str(tmp_path / "out")]
    subprocess.run([sys.executable, "-c", script, *paths], stdout=subprocess.DEVNULL, check=True)


def test_convert_says_what_it_did_and_what_is_next(run: Run, folder: Callable[..., Path], tmp_path: Path) -> None:
    code, out, err = run("convert", folder(6), tmp_path / "out", "--split", "train=0.7,validation=0.3")
    assert (code, err) == (0, "")
    assert "3 classes of image/class/label: 0 daisy, 1 rose, 2 tulip" in out
    assert "train" in out
    assert "validation" in out
    assert "18 images (" in out
    assert f"data = shardfeed.open('{tmp_path / 'out'}')" in out
    block = out.split("next, in Python:")[1].split("or look at it:")[0]
    assert "train_batches(data['train']" in block
    compile(textwrap.dedent(block), "next", "exec")


def test_quiet_prints_nothing_and_json_prints_json(run: Run, folder: Callable[..., Path], tmp_path: Path) -> None:
    root = folder(3)
    assert run("convert", root, tmp_path / "a", "--quiet") == (0, "", "")
    code, out, _ = run("convert", root, tmp_path / "b", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["committed"]
    assert report["splits"]["train"]["records"] == report["images"] == 9


def test_dry_run_shows_the_classes_of_each_split(run: Run, folder: Callable[..., Path], tmp_path: Path) -> None:
    arguments = ("convert", folder(10), tmp_path / "out", "--split", "train=0.8,validation=0.2", "--dry-run")
    code, out, _ = run(*arguments, "--shards", "train=2,validation=9")
    assert code == 0
    assert [line.split() for line in out.splitlines() if line.startswith("  ")][:3] == [
        ["split", "images", "shards", "daisy", "rose", "tulip"],
        ["train", "24", "2", "8", "8", "8"],
        ["validation", "6", "6", "2", "2", "2"],
    ]
    assert "note: split validation has 6 images, so it gets 6 shards instead of 9" in out
    splits = json.loads(run(*arguments, "--split-by", "hash", "--json")[1])["splits"]
    by_hash = {name: split["records"] for name, split in splits.items()}
    assert sum(by_hash.values()) == 30
    assert by_hash == {name: sum(split["class_counts"]["image/class/label"]) for name, split in splits.items()}
    assert by_hash != {"train": 24, "validation": 6}


def test_dry_run_shows_many_classes_in_a_table_of_their_own(run: Run, tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / "images" / f"c{number}").mkdir(parents=True)
        for i in range(4):
            (tmp_path / "images" / f"c{number}" / f"{i}.jpg").write_bytes(b"not opened")
    arguments = ("--split", "train=0.75,validation=0.25", "--dry-run")
    _, out, _ = run("convert", tmp_path / "images", tmp_path / "out", *arguments)
    rows = [line.split() for line in out.splitlines() if line.startswith("  ")]
    assert rows[:4] == [
        ["split", "images", "shards"],
        ["train", "27", "1"],
        ["validation", "9", "1"],
        ["class", "train", "validation"],
    ]
    assert rows[4:13] == [[f"c{number}", "3", "1"] for number in range(9)]


def test_dry_run_refuses_what_the_run_would(run: Run, folder: Callable[..., Path], tmp_path: Path) -> None:
    """With the same exit code; `--replace` and `--restart` mean what they mean there."""
    root = folder(3)
    (tmp_path / "file").write_text("")
    assert run("convert", root, tmp_path / "there")[0] == 0
    before = tree(tmp_path)
    for out, more in (
        ("there", ()),
        ("missing/out", ()),
        ("file", ()),
        ("out", ("--max-bad", "-1")),
        ("there", ("--shards", "0")),
    ):
        dry, real = (run("convert", root, tmp_path / out, *more, *how) for how in (["--dry-run"], []))
        assert (dry[0], dry[2]) == (real[0], real[2]), out
        assert dry[0] == 2
        assert tree(tmp_path) == before
    code, out, _ = run("convert", root, tmp_path / "there", "--dry-run", "--replace")
    assert code == 0
    assert out.endswith("nothing was written (--dry-run)\n")
    assert tree(tmp_path) == before


def test_dry_run_writes_nothing(run: Run, folder: Callable[..., Path], tmp_path: Path) -> None:
    root = folder(5)
    code, out, _ = run("convert", root, tmp_path / "out", "--dry-run", "--shards", "2")
    assert code == 0
    assert "15 images" in out
    assert "nothing was written" in out
    assert os.listdir(tmp_path) == ["images"]
    plan = json.loads(run("convert", root, tmp_path / "out", "--dry-run", "--json")[1])
    assert plan["splits"]["train"]["records"] == plan["dataset_images"] == 15
    assert not plan["committed"]


def test_exit_codes(run: Run, folder: Callable[..., Path], tmp_path: Path) -> None:
    root = folder(3)
    out = tmp_path / "out"
    (root / "rose" / "bad\nname.jpg").write_text("not an image, but some words in a file")
    code, printed, err = run("convert", root, out)
    assert code == 3
    assert r"rose/bad\nname.jpg: E_NOT_IMAGE" in printed
    assert "run again with --max-bad 1 to commit at once" in err
    assert run("convert", root, out, "--seed", "1")[0] == 2  # another plan
    code, printed, _ = run("convert", root, out, "--max-bad", "1")
    assert code == 0
    assert run("convert", root, out, "--max-bad", "1")[0] == 2  # exists
    assert run("convert", root, tmp_path / "no" / "out")[0] == 2
    assert run("convert", tmp_path / "nothing", tmp_path / "x")[0] == 2
    assert run("convert", root, tmp_path / "x", "--split", "train=0.5")[0] == 2
    assert run("convert", root, tmp_path / "x", "--split", "train")[0] == 2
    assert run("convert", root, tmp_path / "x", "--shards", "many")[0] == 2
    assert run("convert", root, tmp_path / "x", "--shard-size", "big")[0] == 2
    assert run("convert", root, tmp_path / "x", "--max-bad", "lots")[0] == 2
    code, _, err = run("convert", root, root / "out")
    assert code == 2
    assert "is inside the source" in err
    assert run("frobnicate")[0] == 2
    assert run("verify", out)[0] == 0
    assert run("verify", out, "--deep")[0] == 0
    assert run("verify", tmp_path)[0] == 2
    shard = out / "train-00000-of-00001.tfrecord"
    shard.write_bytes(shard.read_bytes()[:-1] + b"!")
    code, printed, _ = run("verify", out)
    assert code == 4
    assert "train-00000-of-00001.tfrecord, record 8" in printed
    assert json.loads(run("verify", out, "--json")[1])["damages"][1]["record"] == 8
    shard.unlink()
    assert run("inspect", out)[0] == 4


def test_which_files_are_taken_and_how_they_are_stored(run: Run, folder: Callable[..., Path], tmp_path: Path) -> None:
    root = folder(4)
    (root / "LICENSE").write_text("GPL")
    icon = Image.new("RGBA", (20, 20), (0, 0, 0, 0))
    icon.save(root / "rose" / "icon.png")
    (tmp_path / "far").mkdir()
    icon.convert("RGB").save(tmp_path / "far" / "x.ppm")
    (root / "rose" / "far").symlink_to(tmp_path / "far")
    chosen = ("--include", "rose", "--include", "*.jpg", "--exclude", "tulip/", "--exclude", "*0.jpg", "--follow-links")
    options = (*chosen, "--png-to-jpeg", "--background", "200,100,0", "--quality", "95", "--workers", "1")
    code, out, _ = run("convert", root, tmp_path / "out", *options)
    assert code == 0
    data = shardfeed.open(tmp_path / "out")["train"]
    keys = {record["image/filename"] for record in data}
    assert {b"rose/icon.png", b"rose/far/x.ppm"} < keys
    assert all(key.startswith((b"rose/", b"daisy/")) and not key.endswith(b"0.jpg") for key in keys)
    assert {record["image/format"] for record in data} == {b"jpeg"}
    record = next(record for record in data if record["image/filename"] == b"rose/icon.png")
    pixel = Image.open(io.BytesIO(record["image/encoded"])).getpixel((9, 9))  # type: ignore[arg-type]
    assert all(abs(found - asked) <= 3 for found, asked in zip(pixel, (200, 100, 0), strict=True))  # type: ignore[arg-type]
    assert "left out by include and exclude: " in out
    code, _, error = run(
        "convert", root, tmp_path / "small", "--exclude", "far", "--max-pixels", "399", "--workers", "1"
    )
    assert (code, "E_TOO_LARGE" in error) == (3, True)
    (tmp_path / "seg" / "masks").mkdir(parents=True)
    (tmp_path / "seg" / "images").mkdir()
    for name in ("images", "masks"):
        icon.save(tmp_path / "seg" / name / "1.png")
    code, _, error = run("convert", tmp_path / "seg", tmp_path / "never")
    assert (code, "a transparent pixel" in error) == (2, True)  # images and their masks, not classes
    (tmp_path / "names").write_text("images\nmasks\n")
    insisted = ("--reader", "folder", "--class-names", tmp_path / "names", "--dry-run")
    assert run("convert", tmp_path / "seg", tmp_path / "insisted", *insisted)[0] == 0


def test_inspect(run: Run, flowers: Dataset) -> None:
    code, out, _ = run("inspect", flowers.directory, "--records", "2", "--details")
    assert code == 0
    for text in ("image/class/label", "daisy", "train[1]:", "image/encoded", "bytes"):
        assert text in out
    assert "more: --details" not in out
    assert "more: --details" in run("inspect", flowers.directory)[1]
    described = json.loads(run("inspect", flowers.directory, "--json")[1])
    assert described["splits"]["train"]["records"] == len(flowers["train"])
    assert described["features"]["image/class/label"]["class_names"] == ["daisy", "rose", "tulip"]
    code, _, error = run("inspect", flowers.directory, "--records", "-1")
    assert (code, "--records: got -1, expected an integer of at least 0" in error) == (2, True)


def test_verify_escapes_the_name_of_a_dataset(run: Run, flowers: Dataset, tmp_path: Path) -> None:
    (tmp_path / "a\x1b[2Jb").symlink_to(flowers.directory)
    code, out, _ = run("verify", tmp_path / "a\x1b[2Jb")
    assert (code, "\x1b" in out) == (0, False)


def test_the_first_screen_of_inspect_says_whether_all_is_right(run: Run, tmp_path: Path) -> None:
    """In 24 lines of 80 columns, whatever the dataset: 40 classes, one of them long, broken files, an empty class."""
    source = ((f"{n:02d}" + "x" * 60 * (n == 7), i) for n in range(40) for i in range(20 if n == 3 else 2))
    for name, i in source:
        (tmp_path / "images" / name).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (60, 40), (i, 9, 9)).save(tmp_path / "images" / name / f"{i}.jpg")
    for i in range(3):
        (tmp_path / "images" / "03" / f"broken{i}.jpg").write_bytes(b"no image")
    options = ("--split", "train=0.9,validation=0.05,test=0.05", "--max-bad", "3", "--workers", "1", "--quiet")
    run("convert", tmp_path / "images", tmp_path / "out", *options)
    code, out, _ = run("inspect", tmp_path / "out")
    lines = out.splitlines()
    assert (code, len(lines) <= 24, max(map(len, lines)) <= 80) == (0, True, True)
    assert lines[0].startswith("out: 98 images in 3 splits, ")
    assert [line.split()[0] for line in lines[2:5]] == ["train", "validation", "test"]
    assert re.search(r"40 classes of image/class/label, \d to 20 each:\n  03 +20  #{36}\n", out)
    assert "  ... 32 more classes, with counts between these" in lines
    assert "warning: 3 inputs left out (3 E_NOT_IMAGE), see rejected.jsonl" in lines
    assert re.search(r"^warning: \d+ classes have no image in validation: 00, 01 and \d+ more$", out, re.MULTILINE)
    assert "image/encoded" not in out
    assert "no input was left out" not in out


@pytest.mark.parametrize(("more", "warnings"), [("more=0.2", 6), ("a=0.1,b=0.1", 5)])
def test_the_first_screen_of_inspect_has_room_for_all_warnings(
    run: Run, tmp_path: Path, more: str, warnings: int
) -> None:
    """Two class features, broken images and boxes, classes missing in each of four splits, or of more."""
    rows = []
    for n in range(40):
        Image.new("RGB", (30, 20), (n, 9, 9)).save(tmp_path / f"{n}.png")
        objects = {"bbox": [[1, 1, 9, 9], [500, 500, 9, 9]], "categories": [f"thing {n}", "thing 0"]}
        rows.append({"file_name": f"{n}.png", "label": f"class {n % 20}", "objects": objects})
    (tmp_path / "0.png").write_bytes(b"no image")
    (tmp_path / "metadata.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    options = ("--max-bad", "1", "--max-bad-objects", "40", "--workers", "1", "--quiet")
    run("convert", tmp_path, tmp_path / "out", "--split", f"train=0.4,validation=0.2,test=0.2,{more}", *options)
    lines = run("inspect", tmp_path / "out")[1].splitlines()
    assert len(lines) <= 24
    assert sum(line.startswith("warning: ") for line in lines) == warnings
    assert [line.split()[0] for line in lines[2:6]] == [
        "train",
        "validation",
        "test",
        "more" if warnings == 6 else "and",
    ]
    assert sum("#" in line for line in lines) == 3  # "thing 0" has no object left
    assert sum("more classes, with counts between these" in line for line in lines) == 2


def test_inspect_says_which_images_are_expensive(run: Run, tmp_path: Path) -> None:
    root = tmp_path / "images"
    for i in range(40):
        (root / "a").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (60, 40), (i, 9, 9)).save(root / "a" / f"{i:02d}.jpg")
    Image.new("RGB", (900, 700), (1, 2, 3)).save(root / "a" / "huge\n.jpg")
    Image.new("RGB", (500, 600), (1, 2, 3)).save(root / "a" / "slow.png")
    run("convert", root, tmp_path / "out", "--workers", "1", "--quiet")
    out = run("inspect", tmp_path / "out", "--details")[1]
    assert "pixels of train: median 60x40, largest 900x700, 1 of 42 images have half of all pixels" in out
    assert "1.0 million pixels, decoded in about 0.0 s on one core" in out
    assert re.search(r"500x600 +png +4 ms +a/slow.png\n +900x700 +jpeg +3 ms +a/huge\\n.jpg", out)
    assert "1 class of image/class/label" in out
    sizes = json.loads(run("inspect", tmp_path / "out", "--json")[1])["splits"]["train"]["sizes"]
    assert (sizes["images"], sizes["median"], sizes["largest"]) == (42, [40, 60], [700, 900])
    assert (sizes["pixels"], sizes["half"]) == (40 * 2400 + 630_000 + 300_000, 1)
    slow = {"filename": "a/slow.png", "height": 600, "width": 500, "format": "png", "decode_s": 0.0039}
    assert sizes["expensive"][0] == slow
    assert sizes["decode_s"] == pytest.approx(0.0039 + (630_000 + 40 * 2400) * 5e-9)


def test_verify_and_preview_take_a_dataset_as_it_lies(run: Run, folder: Callable[..., Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    run("convert", folder(2), out, "--workers", "1", "--quiet")
    (out / "README.md").write_text("mine")
    code, printed, _ = run("verify", out)
    assert code == 0
    assert "1 other file not part of the dataset: README.md" in printed
    assert json.loads(run("verify", out, "--json")[1])["strangers"] == ["README.md"]
    code, _, err = run("preview", out, "-o", tmp_path / "nodir" / "x.png")
    assert code == 2
    assert err == f"shardfeed: --output: no directory '{tmp_path}/nodir'; create it first\n"


def test_a_closed_pipe_is_no_error(flowers: Dataset) -> None:
    command = f"{sys.executable} -m shardfeed.tools.cli inspect {flowers.directory} --records 40 | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == ""


@pytest.mark.parametrize(("number", "said"), [(signal.SIGTERM, "terminated"), (signal.SIGINT, "interrupted")])
def test_a_signal_inside_exec_ends_with_its_code(tmp_path: Path, number: signal.Signals, said: str) -> None:
    """Python ends with SIGINT where a KeyboardInterrupt ever passed through `exec` of text, even if it was caught.

    Dataclasses are made by `exec`, so a signal while a module is imported arrives there.
    """
    (tmp_path / "stopped.py").write_text(f"""
import sys
from shardfeed.tools import cli
from shardfeed.tools.commands import inspect_command
stop = "import os, signal, time; os.kill(os.getpid(), {int(number)}); time.sleep(60)"
inspect_command.run = lambda args: exec(stop)
sys.exit(cli.main(["inspect", "."]))
""")
    for command in (["-m", "stopped"], ["stopped.py"])[: 1 if number == signal.SIGTERM else 2]:
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 128 + number, done.stderr
        assert done.stderr.startswith(f"shardfeed: {said}")


@pytest.mark.parametrize("words", [["adopt", "\ud800"], ["remove", "flowers", "--keys", "\ud800"], ["\ud800"]])
def test_half_a_character_is_refused_by_name(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert r"\ud800: got half of a character" in capsys.readouterr().err
