"""`adopt`, `verify --deep`, `preview` and `inspect` of TFRecords that others wrote."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from foreign_tfrecords import picture, write
from PIL import Image

import shardfeed
from shardfeed.errors import IntegrityError, UsageError
from shardfeed.readers import verify
from shardfeed.schema import ENCODED, FORMAT, LABEL
from shardfeed.tools.cli import main
from shardfeed.tools.commands.preview_command import contact_sheet


def adopted(folder: Path, *options: str) -> Path:
    out = folder.with_name(f"{folder.name}_out")
    assert main(["adopt", str(folder), str(out), "--quiet", *options]) == 0
    return out


def deep(out: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["verify", str(out), "--deep"])
    return code, capsys.readouterr().out


def test_folders_of_splits(tmp_path: Path) -> None:
    home = tmp_path / "in"
    for split, count in (("train", 4), ("val", 2)):
        for shard in range(2):
            rows = [{"image": picture(n), "label": shard} for n in range(count)]
            write(home / split / f"{shard:02d}-224x224-{count}.tfrec", rows)
    (home / "README").write_text("x")
    data = shardfeed.open(adopted(home))
    assert {name: len(split) for name, split in data.items()} == {"train": 8, "validation": 4}
    assert data["train"].column(LABEL).tolist() == [0] * 4 + [1] * 4
    assert list(shardfeed.open(adopted(home.rename(tmp_path / "one"), "--split-name", "all"))) == ["all"]


def test_one_folder_that_is_no_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "in" / "tfrecords" / "train.tfrecord", [{"image": picture(1)}])
    assert main(["adopt", str(tmp_path / "in")]) == 2
    said = capsys.readouterr().err
    assert "no TFRecord file in it; its folder tfrecords has 1; give " in said
    write(tmp_path / "in" / "other" / "train.tfrecord", [{"image": picture(1)}])
    (tmp_path / "in" / "tfrecords").rename(tmp_path / "in" / "oth er")
    assert sorted(shardfeed.open(adopted(tmp_path / "in"))) == ["oth_er", "other"]


def test_patterns_of_splits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ray calls its TFRecords .tar."""
    home = tmp_path / "in"
    for number in (2, 10, 1):
        write(home / f"7_{number:06d}_000000.tar", [{"image": picture(number), "label": number}])
    write(home / "deep" / "er" / "x.bin", [{"image": picture(3), "label": 3}])
    assert main(["adopt", str(home)]) == 2
    assert "--split train='*.tar'" in capsys.readouterr().err
    out = adopted(home, "--split", "train=*.tar", "--split", "val=**/*.bin")
    data = shardfeed.open(out)
    assert data["train"].column("label").tolist() == [1, 2, 10]
    assert data["val"].column("label").tolist() == [3]
    for options, match in (
        (["--split", "train=*.tfrecord"], "--split train=*.tfrecord: matches no file in"),
        (["--split", "train=*.tar", "--split", "val=7_*"], "which train also matches"),
        (["--split", "train"], "--split: got 'train', expected NAME=VALUE"),
        (["--split", "a=*.tar", "--split", "a=x"], "--split: got 'a' twice; give each name once"),
        (["--split", "a b=*.tar"], "got the name 'a b'"),
        (["--split", "a=*.tar", "--split-name", "b"], "a split name and split patterns"),
    ):
        assert main(["adopt", str(home), *options]) == 2
        assert match in capsys.readouterr().err


def test_a_source_that_moved_is_named(tmp_path: Path) -> None:
    write(tmp_path / "in" / "train.tfrecord", [{"image": picture(1)}])
    out = adopted(tmp_path / "in")
    (tmp_path / "in").rename(tmp_path / "moved")
    gone = f"train-00000-of-00001.tfrecord is a link to {tmp_path / 'in' / 'train.tfrecord'}, which no longer exists"
    with pytest.raises(IntegrityError, match=gone):
        shardfeed.open(out)
    (damage,) = verify(out).damages
    assert damage.problem == gone.partition(" is ")[2]


def test_what_deep_did_not_decode_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "raw" / "train.tfrecord", [{ENCODED: bytes(12), LABEL: n} for n in range(5)])
    out = adopted(tmp_path / "raw")
    code, printed = deep(out, capsys)
    assert code == 0
    assert (
        "all bytes unchanged, 5 images not decoded: no feature contains images, by the bytes of image/encoded"
        in printed
    )
    assert main(["verify", str(out), "--deep", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["images"]
    assert (told["decoded"], told["not_decoded"]) == (0, 5)
    assert main(["verify", str(out), "--json"]) == 0
    assert "images" not in json.loads(capsys.readouterr().out)
    write(tmp_path / "floats" / "train.tfrecord", [{"x": 1.5}])
    assert "1 image not decoded: no feature contains images\n" in deep(adopted(tmp_path / "floats"), capsys)[1]


def test_deep_decodes_by_the_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever the record says of the format, and where it says nothing."""
    forms = ["JPEG", "PNG", "WEBP", "BMP", "GIF"]
    rows = [{ENCODED: picture(n, forms[n % 5]), FORMAT: b"jpg", LABEL: n} for n in range(10)]
    write(tmp_path / "in" / "train.tfrecord", rows)
    code, printed = deep(adopted(tmp_path / "in"), capsys)
    assert (code, "all bytes unchanged, every image decodes" in printed) == (0, True)
    for number, form in enumerate(forms):
        cut = [{"image": picture(n, form)[: -150 if n == 3 else None]} for n in range(5)]
        write(tmp_path / f"cut{number}" / "train.tfrecord", cut)
        code, printed = deep(adopted(tmp_path / f"cut{number}"), capsys)
        assert code == 4, form
        assert "train-00000-of-00001.tfrecord, record 3, offset" in printed
        assert "its image does not decode" in printed
    wrong = [{ENCODED: picture(1), "image/height": 41, "image/width": 56}]
    write(tmp_path / "size" / "train.tfrecord", wrong)
    assert (
        "got jpeg of 40 x 56 pixels, its record declares jpeg of 41 x 56" in deep(adopted(tmp_path / "size"), capsys)[1]
    )


def test_a_damaged_image_is_named_by_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"image": picture(n)[: -9 if n == 2 else None], "label": n} for n in range(4)]
    write(tmp_path / "train.tfrecord", rows)
    assert main(["adopt", str(tmp_path), "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["notes"] == [
        "images in image: 1 damaged, 3 jpeg",
        "train.tfrecord, record 2: its image is truncated, or its header is damaged",
    ]
    assert (told["image_key"], told["label_key"]) == ("image", "label")


def test_preview_needs_no_file_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, rows in (
        ("minimal", [{ENCODED: picture(n), LABEL: n % 2} for n in range(6)]),
        ("kaggle", [{"image": picture(n, "WEBP"), "class": n % 2} for n in range(6)]),
        ("unlabelled", [{"jpg": picture(n), "txt": b"a cat", "json": b"{}"} for n in range(6)]),
    ):
        write(tmp_path / name / "train.tfrecord", rows)  # type: ignore[arg-type]  # dicts of one type each
        out = adopted(tmp_path / name)
        sheet = tmp_path / f"{name}.png"
        assert main(["preview", str(out), "-o", str(sheet)]) == 0
        assert "6 images, " in capsys.readouterr().out
        pixels = np.asarray(Image.open(io.BytesIO(sheet.read_bytes())).convert("RGB"))
        assert not (pixels == (209, 36, 47)).all(2).any(), "a cross: some did not decode"
        assert main(["inspect", str(out)]) == 0
    write(tmp_path / "two" / "train.tfrecord", [{"left": picture(1), "right": picture(2)}])
    with pytest.raises(UsageError, match="its records have no feature with one image; features with bytes: left"):
        contact_sheet(shardfeed.open(adopted(tmp_path / "two"))["train"])


def test_preview_counts_labels_where_an_image_has_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes are no images: 28 boxes on 20 images are 28 labels."""
    rows = [{ENCODED: picture(n), LABEL: [0, 0, 1][: 1 + n % 3]} for n in range(9)]
    write(tmp_path / "in" / "train.tfrecord", rows)
    split = shardfeed.open(adopted(tmp_path / "in"))["train"]
    remarks: list[str] = []
    monkeypatch.setattr(
        "shardfeed.tools.commands.preview_command.draw_sheet",
        lambda title, notes, rows, columns, **_: remarks.extend(row.remark for row in rows),
    )
    contact_sheet(split)
    assert remarks == ["15 labels", "3 labels"]
