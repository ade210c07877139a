"""A sample of a split: shown in a few lines, and a plain dict for everything else."""

import copy
import io
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fragments import Page
from PIL import Image

import shardfeed
from shardfeed.converters import ImageOptions, convert, from_dicts
from shardfeed.readers import Dataset
from shardfeed.schema import ENCODED


def plain(record: dict[str, Any]) -> dict[str, Any]:
    return dict(record.items())


def photo(side: int = 64) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (side, 50, 3), np.uint8)).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def sample(flowers: Dataset) -> Any:
    return flowers["train"][0]


def test_a_sample_is_shown_by_sizes_and_first_values(sample: Any) -> None:
    size, bytes_of = f"JPEG {sample['image/width']}x{sample['image/height']}", f"{len(sample[ENCODED]):,} bytes"
    text = repr(sample)
    assert f"'image/encoded': <{bytes_of}, {size}>" in text
    assert f"'image/filename': {sample['image/filename']!r}" in text
    assert len(text) < 1_000
    assert len(repr([sample, sample])) < 2_000
    assert text.count("\n") == len(sample) - 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (bytes(5_000), "<5,000 bytes>"),
        (b"\x00\xff", r"b'\x00\xff'"),
        (b"a daisy", "b'a daisy'"),
        (b"daisy " * 99, f"<594 bytes: {(b'daisy ' * 99)[:64]!r}...>"),
        ("é" * 300, f"<300 characters: {'é' * 64!r}...>"),
        (np.arange(9), "<int64 [9]: 0, 1, 2, ...>"),
        (np.array([[0.5, 1]], np.float32), "<float32 [1, 2]: 0.5, 1.0>"),
        (np.zeros((0, 4), np.float32), "<float32 [0, 4]>"),
        ([b"a", b"b"], "[b'a', b'b']"),
        ([b"a", bytes(90), b"c", b"d"], "<list of 4: b'a', <90 bytes>, b'c', ...>"),
        (3.5, "3.5"),
    ],
)
def test_each_kind_of_value_is_shown_short(sample: Any, value: Any, text: str) -> None:
    sample["more"] = value
    assert repr(sample).endswith(f"'more': {text}}}")


def test_what_contains_itself_is_shown(sample: Any) -> None:
    several: list[Any] = []
    several.append(several)
    sample |= {"self": sample, "several": several}
    assert "'self': {...}" in repr(sample)


def test_a_notebook_shows_the_picture_and_the_values(sample: Any, tmp_path: Path) -> None:
    page = Page(sample._repr_html_())
    assert len(page.pictures) == 1
    assert ["image/filename", str(sample["image/filename"])] == page.text[page.text.index("image/filename") :][:2]
    assert len(sample._repr_html_()) < 30_000
    records = [{"key": str(number), "image": photo(), "label": "<script>"} for number in range(4)]
    convert(from_dicts(records), tmp_path / "raw", image=ImageOptions(encode="raw"), workers=1)
    raw: Any = shardfeed.open(tmp_path / "raw")["train"][0]
    assert "<9,600 bytes, raw 50x64>" in repr(raw)
    page = Page(raw._repr_html_())
    assert len(page.pictures) == 1
    assert any("<script>" in text for text in page.text)
    raw[ENCODED] = b"damaged" * 9
    assert Page(raw._repr_html_()).pictures == []


def test_ipython_shows_both(sample: Any) -> None:
    formatters = pytest.importorskip("IPython.core.formatters")
    found, _ = formatters.DisplayFormatter().format(sample)
    assert found["text/plain"] == repr(sample)
    assert len(Page(found["text/html"]).pictures) == 1


def test_a_sample_is_a_dict(flowers: Dataset, sample: Any) -> None:
    train, expected = flowers["train"], plain(sample)
    assert isinstance(sample, dict)
    assert type(sample[ENCODED]) is bytes
    assert sample == expected == train.parse(train.payload(0))
    assert [type(each) for each in (train.__getitems__([0])[0], next(iter(train)))] == [type(sample)] * 2
    copies = [sample.copy(), copy.copy(sample), copy.deepcopy(sample), pickle.loads(pickle.dumps(sample))]
    for made in (*copies, dict(sample), {**sample}, sample | {}, dict(**sample)):
        assert type(made) is dict
        assert made == expected
    written = {key: value for key, value in sample.items() if isinstance(value, int)}
    assert json.loads(json.dumps(written)) == written
    assert np.array([sample["image/filename"]]).dtype.kind == "S"


def test_a_pickle_is_read_where_shardfeed_is_not(sample: Any) -> None:
    program = "import pickle, sys; print(type(pickle.load(sys.stdin.buffer)), 'shardfeed' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(sample), capture_output=True, check=True)
    assert done.stdout.split(b"\n")[0].strip() == b"<class 'dict'> False"


TREES = {
    "torch": "from torch.utils._pytree import tree_map as mapped",
    "torch first": "from torch.utils._pytree import tree_map as mapped",
    "jax": "from jax.tree_util import tree_map as mapped",
    "optree": "from functools import partial; import optree; mapped = partial(optree.tree_map, none_is_leaf=True)",
    "keras": "import keras; mapped = keras.tree.map_structure",
    "tree": "import tree; mapped = tree.map_structure",
    "tensorflow": "import tensorflow; mapped = tensorflow.nest.map_structure",
}


@pytest.mark.parametrize("name", [*TREES][:4] + [pytest.param(slow, marks=pytest.mark.long) for slow in [*TREES][4:]])
def test_a_sample_is_a_container_for_trees(flowers: Dataset, name: str) -> None:
    """Imported after, or before, the first sample was read."""
    pytest.importorskip(name.split()[0])
    read = f"import shardfeed; train = shardfeed.open({str(flowers.directory)!r})['train']; sample = train[0]"
    steps = [TREES[name], read] if name.endswith("first") else [read, TREES[name], "sample = train[1]"]
    program = "\n".join([*steps, "types = mapped(lambda value: type(value).__name__, sample)", "print(dict(types))"])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = {key: type(value).__name__ for key, value in flowers["train"][1].items()}
    assert done.stdout.strip() == str({key: expected[key] for key in sorted(expected)})


def test_pytorch_collates_samples_to_a_plain_dict(flowers: Dataset) -> None:
    data = pytest.importorskip("torch.utils.data")
    loader = data.DataLoader(flowers["train"], batch_size=2)
    batch = next(iter(loader))
    assert type(batch) is dict
    assert batch["image/class/label"].shape == (2,)
    assert batch[ENCODED] == [flowers["train"][place][ENCODED] for place in range(2)]
