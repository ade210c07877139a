"""Samples of a source of one's own that no dataset can hold."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardfeed
from shardfeed.converters import Sample, append, convert, from_dicts
from shardfeed.converters.planning.options import PlanOptions
from shardfeed.converters.planning.plan import make_plan
from shardfeed.errors import UsageError
from shardfeed.schema import Schema


class OwnSource:
    """Samples with these values, each a list element of its own."""

    def __init__(self, values: list[dict[str, Any]], image: bytes) -> None:
        self.schema = Schema({})
        self.samples: list[Any] = [
            Sample(**{"key": b"%d.jpg" % i, "image": image, **value}) for i, value in enumerate(values)
        ]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, i: int) -> Sample:
        return self.samples[i]


NAME = "give a name relative to a folder"
REFUSED: list[tuple[list[dict[str, Any]], str]] = [
    ([{"key": "a.jpg"}], r"source\[0\].key: got 'a.jpg', expected bytes"),
    ([{}, {"key": None}], r"source\[1\].key: got None, expected bytes"),
    ([{"key": b""}], rf"source\[0\].key: .. has an empty part, or .*; {NAME}"),
    ([{"key": b"/etc/x"}], rf"source\[0\].key: '/etc/x' is absolute; {NAME}"),
    ([{"key": b"../../x.jpg"}], rf"source\[0\].key: '../../x.jpg' points outside the folder; {NAME}"),
    ([{"key": b"a\0b.jpg"}], rf"source\[0\].key: .* has a NUL; {NAME}"),
    ([{"key": b"a//b.jpg"}], rf"source\[0\].key: 'a//b.jpg' has an empty part, .*; {NAME}"),
    ([{"key": b"x" * 300}], rf"source\[0\].key: .* has a part of more than 255 bytes; {NAME}"),
    ([{"number": -3}], r"source\[0\].number: got -3, expected an integer from 0 to "),
    ([{"number": 2**63}], r"source\[0\].number: got 9223372036854775808, expected "),
    ([{"number": True}], r"source\[0\].number: got True, expected "),
    ([{"number": 1.5}], r"source\[0\].number: got 1.5, expected "),
    ([{"number": "3"}], r"source\[0\].number: got '3', expected "),
    (
        [{"number": 7}, {"number": 5}, {"number": 7}],
        r"source\[2\].number: got 7, .* of source\[0\]; ids must be unique",
    ),
    ([{"number": 1}, {}], r"source\[1\].number: got None, expected ids of all samples, or of none"),
    ([{}, {"number": 1}], r"source\[1\].number: got 1, and source\[0\] has none, expected ids of all samples"),
    ([{"split": 3}], r"source\[0\].split: got 3, expected text"),
    ([{"split": ["train"]}], r"source\[0\].split: got \['train'\], expected text"),
    ([{"split": ""}], r"source\[0\].split: got '', expected text that is not empty"),
]


@pytest.fixture(scope="module")
def image() -> bytes:
    root = Path(__file__).parents[2] / "data_samples/shapes"
    return min(root.rglob("*.jpg")).read_bytes()


@pytest.mark.parametrize(("values", "said"), REFUSED)
def test_a_sample_no_dataset_can_hold_is_refused(
    values: list[dict[str, Any]], said: str, image: bytes, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=f"^{said}"):
        convert(OwnSource(values, image), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_ids_may_repeat_in_another_split_and_come_in_any_order(image: bytes, tmp_path: Path) -> None:
    values = [{"split": split, "number": number} for split, number in (("train", 5), ("test", 5), ("train", 2))]
    convert(OwnSource(values, image), tmp_path / "out")
    found = {
        name: sorted(map(int, split.column("image/source_id")))
        for name, split in shardfeed.open(tmp_path / "out").items()
    }
    assert found == {"train": [2, 5], "test": [5]}


def test_appended_samples_are_checked_too(image: bytes, tmp_path: Path) -> None:
    convert(OwnSource([{"number": 1}], image), tmp_path / "out")
    with pytest.raises(UsageError, match=r"^source\[1\].number: got -1, expected "):
        append(
            tmp_path / "out",
            OwnSource([{"key": b"2.jpg", "number": 2}, {"key": b"3.jpg", "number": -1}], image),
            tmp_path / "more",
        )
    assert not (tmp_path / "more").exists()


KEYS = st.lists(st.sampled_from([b"..", b".", b"", b"a", b"..x.jpg", b"x..", b"...", b"a\0", b"y" * 256]), max_size=4)


@given(KEYS.map(b"/".join))
@settings(max_examples=200, deadline=None)
def test_keys_have_one_rule(key: bytes) -> None:
    """Dicts and samples of one's own take the same keys: paths below a folder, of which no part is `..`."""
    parts = key.split(b"/")
    taken = all(0 < len(part) <= 255 and part not in (b".", b"..") and b"\0" not in part for part in parts)
    try:
        found = from_dicts([{"image": b"", "key": key}])[0].key
    except UsageError:
        found = None
    try:
        make_plan(OwnSource([{"key": key}], b""), PlanOptions())
        planned = key
    except UsageError:
        planned = None
    assert (found, planned) == ((key, key) if taken else (None, None))
