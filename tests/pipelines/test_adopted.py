"""Training on TFRecords that others wrote: other keys, other formats, images that do not decode."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from foreign_tfrecords import picture, write
from PIL import Image

import shardfeed
from shardfeed.converters import adopt, survey
from shardfeed.errors import RecordError, UsageError
from shardfeed.manifest import read_manifest
from shardfeed.naming import MANIFEST
from shardfeed.pipelines import eval_batches, make_batches, mix, random_resized_crop, train_batches
from shardfeed.pipelines.orders.choices import Global
from shardfeed.pipelines.tensorflow.decode import as_jpeg_or_png, tensorflow_decodes
from shardfeed.pipelines.torch import torch_eval_loader, torch_loader
from shardfeed.readers.split import Split
from shardfeed.schema import ENCODED, FORMAT, LABEL


def adopted(rows: list[dict[str, Any]], place: Path, **options: Any) -> Split:
    write(place / "in" / "train.tfrecord", rows)
    adopt(survey(place / "in", **options), place / "out")
    return shardfeed.open(place / "out")["train"]


def batches_of(split: Split, **options: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(train_batches(split, batch_size=4, image_size=24, seed=3, **options).as_numpy_iterator())


@pytest.mark.long
@pytest.mark.parametrize("said", [b"jpg", b".jpg", b"image/jpeg", b"png", b"JPEG", None])
def test_what_a_record_says_of_its_format_changes_no_pixel(tmp_path: Path, said: bytes | None) -> None:
    def rows(form: bytes | None) -> list[dict[str, Any]]:
        return [{ENCODED: picture(n), LABEL: n} | ({FORMAT: form} if form else {}) for n in range(8)]

    expected = adopted(rows(b"jpeg"), tmp_path / "a")
    found = adopted(rows(said), tmp_path / "b")
    for order in ("stream", "global"):
        for ours, theirs in zip(batches_of(expected, order=order), batches_of(found, order=order), strict=True):
            assert np.array_equal(ours[1], theirs[1])
            assert np.array_equal(ours[0], theirs[0])


def test_a_constant_that_is_not_exactly_ours_vouches_for_nothing() -> None:
    """In the transforms themselves, whatever a caller's features say."""
    from shardfeed.pipelines import resize_center_crop

    seed = tf.zeros([2], tf.int64)
    crop = resize_center_crop(24)
    plain = crop({ENCODED: tf.constant(picture(1))}, seed)
    for said in (b"jpg", b"JPEG", b"png ", b"webp"):
        assert np.array_equal(crop({ENCODED: tf.constant(picture(1)), FORMAT: tf.constant(said)}, seed), plain)


def test_formats_that_tensorflow_does_not_read(tmp_path: Path) -> None:
    """Each image comes out with the pixels that Pillow, and so PyTorch, sees."""
    forms = ["JPEG", "PNG", "WEBP", "BMP", "GIF"]
    split = adopted([{"image": picture(n, forms[n % 5]), "label": n} for n in range(10)], tmp_path)
    assert split.formats == {"jpeg": 2, "png": 2, "webp": 2, "bmp": 2, "gif": 2}

    def decoded(features: Any, seed: Any) -> Any:
        return tf.ensure_shape(tf.io.decode_image(features[ENCODED], 3, expand_animations=False), [40, 56, 3])

    found = next(
        iter(make_batches(split, decoded, batch_size=10, order="stored", drop_remainder=False).as_numpy_iterator())
    )
    for number in range(10):
        expected = np.asarray(Image.open(io.BytesIO(picture(number, forms[number % 5]))).convert("RGB"))
        if forms[number % 5] != "JPEG":  # which this transform decodes with TensorFlow's own DCT
            assert np.array_equal(found[number], expected), forms[number % 5]
    assert sum(len(labels) for _, labels in batches_of(split)) == 8
    assert sum(len(labels) for _, labels in torch_loader(split, batch_size=4, image_size=24, workers=0)) == 8


@pytest.mark.long
@pytest.mark.parametrize("order", ["stream", pytest.param("global", marks=pytest.mark.long)])
def test_an_image_that_does_not_decode_is_named(tmp_path: Path, order: str) -> None:
    whole = [picture(n) for n in range(12)]
    broken = {
        "cut": whole[7][:-30],
        "header": whole[7][:60] + bytes(40) + whole[7][100:],
        "no image": b"<html>not found</html>",
        "nothing": b"",
    }
    for what, image in broken.items():
        rows = [
            {"image": image if n == 7 else whole[n], "label": n, "image/filename": b"pic/%d.jpg" % n} for n in range(12)
        ]
        split = adopted(rows, tmp_path / what)
        where = r"out/train-00000-of-00001\.tfrecord, record 7, offset \d+ \(pic/7\.jpg\): it does not decode"
        with pytest.raises(tf.errors.OpError, match=where):
            batches_of(split, order=order)
        with pytest.raises(tf.errors.OpError, match=where):
            batches_of(mix([(split, 1), (split, 2)]), order="global")  # type: ignore[arg-type]
        if order == "global":
            for loader in (
                torch_loader(split, batch_size=4, image_size=24, workers=0),
                torch_eval_loader(split, batch_size=4, image_size=24, workers=0),
            ):
                with pytest.raises(RecordError, match=where):
                    list(loader)


def test_sound_datasets_are_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is vouched for pays nothing: no Python runs for an image of it."""
    monkeypatch.setattr("shardfeed.pipelines.tensorflow.assembly.image_checker", None)
    split = adopted([{"image": picture(n, ["JPEG", "PNG"][n % 2]), "label": n} for n in range(8)], tmp_path)
    assert len(batches_of(split)) == 2
    assert tensorflow_decodes({"jpeg": 1, "png": 2, "raw": 1})
    assert not tensorflow_decodes({"jpeg": 1, "damaged": 1})
    assert not tensorflow_decodes({})


def test_datasets_adopted_before_images_were_looked_at(tmp_path: Path) -> None:
    """Their manifests repeat what records say of their formats: it is not believed."""
    rows = [{ENCODED: picture(n, "PNG" if n == 5 else "JPEG"), FORMAT: b"jpeg", LABEL: n} for n in range(8)]
    expected = batches_of(adopted(rows, tmp_path))
    path = tmp_path / "out" / MANIFEST
    manifest = read_manifest(tmp_path / "out")
    options = {key: value for key, value in manifest.options.items() if key not in ("image_key", "label_key")}
    split = manifest.splits["train"]
    object.__setattr__(manifest, "options", options)
    object.__setattr__(split, "formats", {"jpeg": 8})
    path.write_bytes(manifest.to_bytes())
    split = shardfeed.open(tmp_path / "out")["train"]
    assert split.formats == {}
    for ours, theirs in zip(expected, batches_of(split), strict=True):
        # By the graph, where each image is looked at first, and one level off at most.
        assert np.abs(ours[0].astype(int) - theirs[0]).max() <= 1


def test_images_for_tensorflow() -> None:
    for form in ("JPEG", "PNG"):
        assert as_jpeg_or_png(picture(1, form)) == picture(1, form)
        assert as_jpeg_or_png(picture(1, form) + bytes(9)) == picture(1, form) + bytes(9)
    found = as_jpeg_or_png(picture(1, "WEBP"))
    pixels = np.asarray(Image.open(io.BytesIO(picture(1, "WEBP"))))
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(found))), pixels)


@pytest.mark.long
def test_tfds_prepared_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Data that TFDS itself writes trains without an argument: image, label and class names are found."""
    import tensorflow_datasets as tfds

    from shardfeed.tools.cli import main

    class Builder(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc]
        VERSION = tfds.core.Version("1.0.0")
        name = "tiny_flowers"

        def _info(self) -> tfds.core.DatasetInfo:
            features = {
                "image": tfds.features.Image(encoding_format="jpeg"),
                "label": tfds.features.ClassLabel(names=["daisy", "rose"]),
                "objects": tfds.features.Sequence({"label": tfds.features.ClassLabel(names=["leaf", "stem"])}),
            }
            return self.dataset_info_from_configs(
                features=tfds.features.FeaturesDict(features), supervised_keys=("image", "label")
            )

        def _split_generators(self, dl_manager: Any) -> Any:
            return {"train": self._generate_examples(12), "test": self._generate_examples(5)}

        def _generate_examples(self, count: int) -> Any:
            for i in range(count):
                objects = [{"label": 1}] * (i % 3)
                yield i, {"image": np.full((30, 30, 3), 9 * i, np.uint8), "label": i % 2, "objects": objects}

    builder = Builder(data_dir=str(tmp_path / "tfds"))
    builder.download_and_prepare()
    out = tmp_path / "root" / "tiny" / "2.1.0"
    out.parent.mkdir(parents=True)
    assert main(["adopt", str(builder.data_path), str(out)]) == 0
    printed = capsys.readouterr().out
    assert "readers use the name image/encoded" in printed
    assert "2 classes of label: daisy, rose" in printed
    assert "class names of label come from label.labels.txt" in printed
    assert "images in image: 17 jpeg" in printed
    data = shardfeed.open(out)
    train = data["train"]
    assert data.class_names == ("daisy", "rose")
    assert train.schema.class_names["objects/label"] == ("leaf", "stem")
    labels = [label for _, of_batch in batches_of(train) for label in of_batch]
    assert sorted(labels) == [0] * 6 + [1] * 6
    (images, evaluated), *_ = eval_batches(data["test"], batch_size=5, image_size=16).as_numpy_iterator()
    assert images.shape == (5, 16, 16, 3)
    assert evaluated.tolist() == data["test"].column("label").tolist()
    balanced = batches_of(train, order=Global(balance="class"))
    assert all(sorted(labels) == [0, 0, 1, 1] for _, labels in balanced)
    for images, labels in torch_loader(train, batch_size=4, image_size=16, workers=0):
        assert (tuple(images.shape), len(labels)) == ((4, 3, 16, 16), 4)
    assert main(["verify", str(out), "--deep", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["images"] == {"decoded": 17, "not_decoded": 0, "why_not": ""}
    assert main(["preview", str(out), "-o", str(tmp_path / "sheet.png")]) == 0
    loaded = tfds.load("tiny", data_dir=str(tmp_path / "root"), split="test", as_supervised=True)
    assert [int(label) for _, label in loaded] == evaluated.tolist()
    info = tfds.builder("tiny", data_dir=str(tmp_path / "root")).info
    assert (info.name, str(info.version)) == ("tiny", "2.1.0")
    assert info.features["label"].names == ["daisy", "rose"]


def test_no_image_or_no_label_is_said_alike(tmp_path: Path) -> None:
    """By TensorFlow and by PyTorch: a UsageError that lists what there is."""
    no_image = adopted([{"left": picture(n), "right": picture(n), "label": n} for n in range(4)], tmp_path / "a")
    no_label = adopted([{"image": picture(n), "name": b"cat"} for n in range(4)], tmp_path / "b")
    raw = adopted([{ENCODED: bytes(12), LABEL: n} for n in range(4)], tmp_path / "c")
    for split, match in (
        (no_image, "image: the records have no 'image/encoded', one image each; .*'left', 'right'; .*--image-key KEY"),
        (no_label, "label: this dataset has no label; label=None gives only images"),
        (raw, "image: 'image/encoded' is not an image; features with bytes: 'image/encoded'"),
    ):
        for make in (
            lambda split: train_batches(split, batch_size=2, image_size=8),
            lambda split: eval_batches(split, batch_size=2, image_size=8),
            lambda split: torch_loader(split, batch_size=2, image_size=8, workers=0),
            lambda split: torch_eval_loader(split, batch_size=2, image_size=8, workers=0),
        ):
            with pytest.raises(UsageError, match=match):
                make(split)


def test_raw_pixels_beside_files(tmp_path: Path) -> None:
    """Each by what it is: pixels by `image/format`, files by their bytes."""
    sides = {"image/height": 40, "image/width": 56}
    pixels = [np.full((40, 56, 3), 20 * n, np.uint8) for n in range(8)]
    rows = [
        {ENCODED: pixels[n].tobytes() if n % 2 else picture(n, "WEBP"), FORMAT: b"raw" if n % 2 else b"webp", LABEL: n}
        | sides
        for n in range(8)
    ]
    split = adopted(rows, tmp_path)
    assert split.formats == {"webp": 4, "raw": 4}
    images, labels = next(iter(eval_batches(split, batch_size=8, image_size=16).as_numpy_iterator()))
    for image, label in zip(images, labels, strict=True):
        assert label % 2 == 0 or (image == 20 * label).all()


def test_labels_that_are_text(tmp_path: Path) -> None:
    """As docs/adopt.md says: records stay, a transform gives each text its number."""
    kinds = (b"rose", b"daisy", b"tulip")
    split = adopted([{"image": picture(n), "image/class/text": kinds[n % 3]} for n in range(9)], tmp_path)
    names = sorted({bytes(text) for text in split.column("image/class/text")})
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant(names), tf.range(len(names), dtype=tf.int64)), -1
    )
    crop = random_resized_crop(16)
    batches = make_batches(
        split, lambda f, seed: (crop(f, seed), table.lookup(f["image/class/text"])), batch_size=9, order="stored"
    )
    images, labels = next(iter(batches.as_numpy_iterator()))
    assert images.shape == (9, 16, 16, 3)
    assert labels.tolist() == [names.index(kinds[n % 3]) for n in range(9)]
