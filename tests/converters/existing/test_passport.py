"""croissant.json and the dataset card: what they say, and the programs that read them."""

import hashlib
import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from shardfeed.converters import AnnotationOptions, CardOptions, LabelOptions, card, convert, from_dicts, open_source
from shardfeed.converters.existing.split import reshard
from shardfeed.errors import IntegrityError, OutputExistsError, UsageError
from shardfeed.manifest import parse_manifest
from shardfeed.readers import Dataset, verify
from shardfeed.tools.cli import main as command

from repository import ROOT

ABOUT = CardOptions(
    license="CC-BY-4.0",
    title='Flowers: "wild"',
    url="https://example.com/flowers",
    creators=["Ada Byron"],
    organizations=["Herbarium"],
    sources=["a meadow"],
    published="2026-11-27",
)


@pytest.fixture
def copy(flowers: Dataset, tmp_path: Path) -> Path:
    return Path(shutil.copytree(flowers.directory, tmp_path / "copy"))


def head(directory: Path) -> dict[str, Any]:
    return yaml.safe_load((directory / "README.md").read_text().split("---\n")[1])


def test_croissant_has_the_files_splits_classes_and_fields(copy: Path, flowers: Dataset) -> None:
    card(copy, ABOUT)
    found = json.loads((copy / "croissant.json").read_text())
    assert found["conformsTo"] == "http://mlcommons.org/croissant/1.1"
    assert found["license"] == {"@type": "CreativeWork", "name": "CC-BY-4.0"}
    assert [(one["@type"], one["name"]) for one in found["creator"]] == [
        ("Person", "Ada Byron"),
        ("Organization", "Herbarium"),
    ]
    *files, every = found["distribution"]
    assert {one["contentUrl"]: one["sha256"] for one in files} == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in [copy / "manifest.json", *copy.glob("*.tfrecord")]
    }
    assert (every["@type"], every["includes"]) == ("cr:FileSet", ["*.tfrecord"])
    splits, classes, records = found["recordSet"]
    assert splits["data"] == [{"splits/name": "train"}, {"splits/name": "validation"}]
    assert [tuple(row.values()) for row in classes["data"]] == [*enumerate(flowers["train"].class_names)]
    fields = {one["name"].removeprefix("records/"): one for one in records["field"]}
    assert fields.keys() == {"split", *flowers["train"].schema.features}
    assert fields["image/encoded"]["dataType"] == "sc:ImageObject"
    assert fields["image/class/label"]["dataType"] == ["cr:Int64", "cr:Label"]
    assert fields["split"]["source"]["transform"] == {"regex": r"(train|validation)-.*\.tfrecord$"}


def test_the_card_counts_and_the_dataset_stays_whole(copy: Path, flowers: Dataset) -> None:
    card(copy, ABOUT)
    found = verify(copy)
    assert not found.damages
    assert not found.strangers
    assert head(copy) == {
        "pretty_name": 'Flowers: "wild"',
        "license": "cc-by-4.0",
        "task_categories": ["image-classification"],
        "size_categories": ["n<1K"],
        "tags": ["shardfeed"],
    }
    text = (copy / "README.md").read_text()
    counts = [f"{flowers[split].class_counts['image/class/label'][0]:,}" for split in ("train", "validation")]
    assert f"| {flowers['train'].class_names[0]} | {' | '.join(counts)} |" in text
    assert "| train | 161 |" in text
    for line in ("- a meadow", "- Ada Byron", "- Herbarium", "201 images in 2 splits"):
        assert line in text


def test_objects_and_other_formats(tmp_path: Path) -> None:
    for to, pattern in (("tfrecord", "*.tfrecord"), ("parquet", "data/*.parquet"), ("mds", "train/*.mds")):
        out = scenes(tmp_path / to, to)
        card(out, CardOptions(license="https://example.com/license"))
        found = json.loads((out / "croissant.json").read_text())
        assert pattern in found["distribution"][-1]["includes"]
        fields = {one["name"]: one for one in found["recordSet"][-1]["field"]}
        assert (fields["records/image/object/bbox/xmin"]["arrayShape"], found["license"]) == (
            "-1",
            "https://example.com/license",
        )
        assert head(out)["license_link"] == "https://example.com/license"
        assert head(out)["task_categories"] == ["object-detection", "image-segmentation"]
        assert ("configs" in head(out)) == (to == "parquet")


def test_texts_that_yaml_or_the_hub_would_misread(tmp_path: Path) -> None:
    source = open_source(ROOT / "data_samples/scenes/images", options=LabelOptions(unlabelled=True))
    convert(source, tmp_path / "out", to="parquet", split={"no": 0.5, "on": 0.5}, workers=1)
    card(tmp_path / "out", CardOptions(license="CC BY 4.0"))
    found = head(tmp_path / "out")
    files = found["configs"][0]["data_files"]
    assert sorted((one["split"], one["path"]) for one in files) == [("no", "data/no-*"), ("on", "data/on-*")]
    assert (found["license"], found["license_name"]) == ("other", "cc-by-4.0")


def scenes(out: Path, to: str) -> Path:
    """16 images with boxes and masks."""
    options = AnnotationOptions(images=str(ROOT / "data_samples/scenes/images"), tasks=["boxes", "masks"])
    source = open_source(ROOT / "data_samples/scenes/coco/instances.json", options=options)
    convert(source, out, to=to, split={"train": 0.8, "validation": 0.2}, workers=1)
    return out


def test_a_card_that_exists_and_a_damaged_shard(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / "README.md").write_text("mine")
    with pytest.raises(OutputExistsError, match=r"README.md: exists already; .*replace=True"):
        card(copy)
    shard = next(copy.glob("train*.tfrecord"))
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(IntegrityError, match=f"{shard.name}: its CRC-32C is"):
        card(copy, replace=True)
    assert (copy / "README.md").read_text() == "mine"
    assert not (copy / "croissant.json").exists()
    shard.write_bytes(whole)
    for text in ("soon", "20261127"):
        with pytest.raises(UsageError, match=f"published: got '{text}', expected a date"):
            CardOptions(published=text)
    assert command(["card", str(copy), "--replace", "--organization", "Herbarium"]) == 0
    assert capsys.readouterr().out.splitlines()[2] == "note: Croissant also requires --license, --url, --published"
    assert command(["card", str(copy), "--replace", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"missing": ["license", "url", "creators", "published"]}


@pytest.mark.long
def test_mlcroissant_finds_no_error_and_reads_parquet(copy: Path, flowers: Dataset, tmp_path: Path) -> None:
    mlc = pytest.importorskip("mlcroissant", reason="pip install mlcroissant, to test with it")
    reshard(copy, tmp_path / "parquet", to="parquet")
    for directory in (copy, tmp_path / "parquet", scenes(tmp_path / "scenes", "parquet")):
        card(directory, ABOUT)
        described = mlc.Dataset(str(directory / "croissant.json"))
        assert not described.metadata.ctx.issues.errors
    boxes = {row["records/image/filename"]: row for row in described.records("records")}
    assert len(boxes) == 16
    assert max(len(row["records/image/object/mask"]) for row in boxes.values()) > 1
    described = mlc.Dataset(str(tmp_path / "parquet/croissant.json"))
    for split, count in (("train", 161), ("validation", 40)):
        rows = {row["records/image/filename"]: row for row in described.records("records", {"records/split": split})}
        assert len(rows) == count
        for record in flowers[split]:
            row = rows[record["image/filename"]]
            assert row["records/label"] == record["image/class/label"]
            assert row["records/image"].size == (record["image/width"], record["image/height"])


@pytest.mark.long
def test_tfds_builds_what_croissant_describes(copy: Path, tmp_path: Path) -> None:
    for package in ("mlcroissant", "apache_beam"):
        pytest.importorskip(package, reason=f"pip install {package}, to test TFDS's CroissantBuilder")
    from tensorflow_datasets.core.dataset_builders.croissant_builder import CroissantBuilder

    reshard(copy, tmp_path / "parquet", to="parquet")
    card(tmp_path / "parquet", ABOUT)
    jsonld = str(tmp_path / "parquet/croissant.json")
    builder = CroissantBuilder(
        jsonld=jsonld, record_set_ids=["records"], file_format="array_record", data_dir=tmp_path / "tfds"
    )
    builder.download_and_prepare()
    assert {name: split.num_examples for name, split in builder.info.splits.items()} == {"train": 161, "validation": 40}
    assert builder.as_data_source(split="train")[0]["image"].shape[2] == 3


@pytest.mark.long
@pytest.mark.parametrize("to", ["parquet", "webdataset"])
def test_hugging_faces_datasets_loads_by_the_card(copy: Path, flowers: Dataset, tmp_path: Path, to: str) -> None:
    reshard(copy, tmp_path / "jpegs", to=to)
    card(tmp_path / "jpegs", ABOUT)
    label = "label" if to == "parquet" else "cls"
    program = (  # in a process where no module of the tests is called `datasets`
        "import collections, json, sys; from datasets import load_dataset\n"
        "found = load_dataset(sys.argv[1], cache_dir=sys.argv[2])\n"
        "print(json.dumps({name: collections.Counter(rows[sys.argv[3]]) for name, rows in found.items()}))"
    )
    typed = [sys.executable, "-c", program, str(tmp_path / "jpegs"), str(tmp_path / "cache"), label]
    done = subprocess.run(typed, capture_output=True, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    if "No module named 'datasets'" in done.stderr:
        pytest.skip("pip install datasets, to test with it")
    assert done.returncode == 0, done.stderr
    counts = {split: dict(enumerate(flowers[split].class_counts["image/class/label"])) for split in flowers}
    assert {split: {int(k): n for k, n in found.items()} for split, found in json.loads(done.stdout).items()} == counts


def test_a_class_name_is_no_markup(tmp_path: Path) -> None:
    source = from_dicts([{"image": ROOT / "data_samples/scenes/images/scene_001.jpg", "label": "<b>*a*|`b`"}])
    convert(source, tmp_path / "out", workers=1)
    card(tmp_path / "out")
    assert r"| \<b\>\*a\*\|\`b\` | 1 |" in (tmp_path / "out" / "README.md").read_text()


def test_texts_are_what_was_given_whatever_markup_they_have(copy: Path) -> None:
    markdown = pytest.importorskip("markdown_it", reason="a parser of Markdown, of the extra docs")
    title, citation = "# A*b*\n---\nlicense: x\u2028\x9bend\x7f", "@a{x,\n```\n# not\n````\n}"
    names = ["1. FC Koeln", "- x", "# y", "<script>alert(1)</script>", "a\n\n# b", "a_b_c &lt;"]
    sources = ["a meadow\n- in May\n\nand June", "https://example.com/a_b_c", "[a wood](https://example.com)"]
    card(copy, CardOptions(title=title, citation=citation, creators=names, sources=sources, license="CC *BY*"))
    assert head(copy)["pretty_name"] == title
    body = (copy / "README.md").read_text().split("---\n", 2)[2]
    page = markdown.MarkdownIt("commonmark", {"html": True}).enable("table").render(body)
    assert re.findall("<h1>(.*)</h1>", page) == ["# A*b* --- license: x \x9bend\x7f"]
    assert re.findall("<h2>(Sources|Made by|License|Citation)</h2>", page) == [
        *("Sources", "Made by", "License", "Citation")
    ]
    of_sources, of_makers = page.split("<h2>Sources</h2>")[1].split("<h2>Made by</h2>")
    assert of_sources.count("<p>") == 4, "of three items, one with a list and two paragraphs"
    assert [html.unescape(one) for one in re.findall("<li>(.*)</li>", of_makers)] == [
        *(" ".join(name.split()) for name in names)
    ]
    assert f'<code class="language-bibtex">{html.escape(citation)}\n</code>' in page
    assert "<p>CC *BY*</p>" in page
    assert page.count("<table>") == 2


HOSTILE = "https://x/\n\n# injected\n<script>1</script> \u202e[a](b) `c` | *d*"


@pytest.mark.parametrize("field", ["license", "title", "creators", "organizations", "citation", "url"])
def test_no_field_of_the_options_makes_markup(copy: Path, field: str) -> None:
    markdown = pytest.importorskip("markdown_it", reason="a parser of Markdown, of the extra docs")
    many = field in ("creators", "organizations")
    given: dict[str, Any] = {field: [HOSTILE] if many else HOSTILE}
    card(copy, CardOptions(**given))
    text = (copy / "README.md").read_text()
    page = markdown.MarkdownIt("commonmark", {"html": True}).enable("table").render(text.split("---\n", 2)[2])
    assert "<script>" not in page
    assert "injected</h1>" not in page
    assert "<em>" not in page
    assert not re.search("^# injected", text, re.MULTILINE) or field == "citation"  # in a block of code
    assert HOSTILE in json.dumps(json.loads((copy / "croissant.json").read_text()), ensure_ascii=False).replace(
        "\\n", "\n"
    )


@pytest.mark.parametrize(
    "license", ["https://x/[a](javascript:b)", "https://x/a_b_c*d*", "http://x/<b>", "https://x y"]
)
def test_a_license_that_is_a_url_is_a_link_to_it(copy: Path, license: str) -> None:
    markdown = pytest.importorskip("markdown_it", reason="a parser of Markdown, of the extra docs")
    card(copy, CardOptions(license=license))
    text = (copy / "README.md").read_text().split("---\n", 2)[2]
    page = markdown.MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    shown = html.unescape(re.findall("<p>(.*)</p>", page.split("<h2>License</h2>")[1])[0])
    assert re.sub("</?a[^>]*>", "", shown) == license
    assert 'href="javascript' not in page


def with_manifest(directory: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest's content, and sign it again."""
    path = directory / "manifest.json"
    manifest = parse_manifest(path.read_bytes(), str(path))
    change(vars(manifest))
    path.write_bytes(manifest.to_bytes())


def test_a_manifest_without_counts_has_a_card(copy: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        for split in manifest["splits"].values():
            object.__setattr__(split, "class_counts", {})

    with_manifest(copy, change)
    card(copy)
    assert "## Classes of image/class/label" in (copy / "README.md").read_text()


def test_a_manifest_makes_no_markup(copy: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["name"] = HOSTILE
        manifest["rejected"] = {HOSTILE: 3}

    with_manifest(copy, change)
    card(copy)
    body = (copy / "README.md").read_text().split("---\n", 2)[2]
    assert "<script>" not in body.replace("\\<", "")
    assert not re.search("^# injected", body, re.MULTILINE)


def test_text_that_utf_8_cannot_store_is_refused(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["card", str(copy), "--creator", "Ren\udce9"]) == 2  # Latin-1 from a shell
    assert "--creator: got" in capsys.readouterr().err
    assert not (copy / "croissant.json").exists()


def test_each_maker_and_source_that_is_typed_counts(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = {
        "creator": ["Byron, Ada", "Carl Linne"],
        "organization": ["Herbarium, Ltd.", "Garden"],
        "source": ["a meadow, in May", "a wood"],
    }
    flags = [part for name, texts in given.items() for text in texts for part in (f"--{name}", text)]
    assert command(["card", str(copy), *flags]) == 0
    assert capsys.readouterr().out.splitlines()[2] == "note: Croissant also requires --license, --url, --published"
    found = json.loads((copy / "croissant.json").read_text())
    assert [one["name"] for one in found["creator"]] == given["creator"] + given["organization"]
    assert found["isBasedOn"] == given["source"]
    assert command(["card", str(copy), "--replace"]) == 0
    assert "requires --license, --url, --creator, --published" in capsys.readouterr().out
