"""Arguments that cannot be meant: each public function says so in one way, and nothing else happens."""

import inspect
import os
import random
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from enum import StrEnum
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import pytest
import tensorflow as tf
import torch
from argument_fuzz import NOT_CALLED, RIGHT, Door, Place, calls
from option_fuzz import commands
from typing_extensions import TypeAliasType

import shardfeed
from shardfeed import converters, declared, shapes
from shardfeed.converters import AnnotationOptions, LabelOptions, convert, open_source, remove
from shardfeed.declared import Count, check, checked
from shardfeed.errors import UsageError
from shardfeed.pipelines import Global, mix
from shardfeed.pipelines.torch import to_device
from shardfeed.readers import Dataset, Skip

PACKAGES = (
    "shardfeed",
    *(f"shardfeed.{name}" for name in ("converters", "readers", "pipelines", "pipelines.torch", "pipelines.augment")),
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A folder two levels down, so that what climbs out of it stays within the test's."""
    (tmp_path / "a/b/made").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a/b")
    return Place(Path.cwd())


def faults(doors: Sequence[Door], seed: int, count: int) -> list[str]:
    """Make that many calls, and return the faults."""
    tally = Counter[str]()
    found = []
    for _, _, how, shown in calls(doors, random.Random(seed), count):
        tally[how] += 1
        if how not in RIGHT:
            found.append(f"{how}: {shown}")
    assert tally["named"] > count // 2
    return found


@pytest.mark.promise(73)
def test_unusable_arguments_are_refused_by_name(place: Place, seed: int) -> None:
    assert faults(place.doors(tensorflow=False), seed, 300) == []


@pytest.mark.promise(73)
def test_unusable_arguments_of_methods_and_operators_are_refused_by_name(place: Place, seed: int) -> None:
    assert faults(place.method_doors(tensorflow=False), seed, 300) == []


@pytest.mark.promise(73)
def test_unusable_options_are_refused_by_name(place: Place, seed: int) -> None:
    assert wrong_commands(place, seed, 60) == []


def wrong_commands(place: Place, seed: int, count: int) -> list[str]:
    """Type that many commands, and return the faults."""
    ended = commands(place, random.Random(seed), count)
    return [f"{how}: {shown}" for _, _, how, shown in ended if how not in RIGHT]


@pytest.mark.torture
@pytest.mark.promise(73)
def test_unusable_arguments_are_refused_by_name_in_20_000_calls(place: Place, seed: int) -> None:
    doors = [*place.doors(tensorflow=True), *place.method_doors(tensorflow=True)]
    assert faults(doors, seed, 20_000) == []


@pytest.mark.torture
@pytest.mark.promise(73)
def test_unusable_options_are_refused_by_name_in_5_000_commands(place: Place, seed: int) -> None:
    assert wrong_commands(place, seed, 5_000) == []


def test_every_public_name_is_tried(place: Place) -> None:
    doors = [*place.doors(tensorflow=True), *place.method_doors(tensorflow=True)]
    tried = {door.name.rpartition(".")[2] for door in doors}
    public = {name for package in PACKAGES for name in import_module(package).__all__}
    assert public - NOT_CALLED - tried == set()
    assert NOT_CALLED & tried == set()
    assert [door.name for door in doors if any(isinstance(hint, str) for hint in door.hints().values())] == []


def test_a_signature_shows_types_as_users_write_them() -> None:
    shown = str(inspect.signature(converters.ImageOptions))
    assert "quality: int | None = None, baseline: bool = False" in shown
    for package in PACKAGES:
        for name in import_module(package).__all__:
            value = getattr(import_module(package), name)
            if inspect.isfunction(value) or is_dataclass(value):
                assert "Annotated" not in str(inspect.signature(value)), name


def test_an_element_is_named_and_a_remedy_given() -> None:
    from shardfeed import converters

    convert: Any = converters.convert
    options_of_labels: Any = converters.LabelOptions

    options: list[tuple[Any, str]] = [
        (lambda: convert("x", "y", shards={"train": 0}), "shards: got 0 for 'train', expected an integer from 1 to "),
        (lambda: convert("x", "y", split={3: 0.5}), "split: got the key 3, expected text; write "),
        (
            lambda: options_of_labels(one_hot="rose"),
            "one_hot: got 'rose', expected a list of text or an integer; put it in brackets",
        ),
        (
            lambda: options_of_labels(text_columns=[None]),
            "text_columns: got None in the list, expected text or an integer",
        ),
        (
            lambda: converters.CardOptions(creators=["Ada Byron", ""]),
            "creators: got '' in the list, expected text that is not empty",
        ),
        (lambda: convert("x", "y", split={"": 0.5}), "split: got the key '', expected text that is not empty"),
    ]
    for call, said in options:
        with pytest.raises(UsageError, match=f"^{said}"):
            call()


def test_what_is_admitted_is_passed_on_as_the_type_that_is_declared() -> None:
    class Mode(StrEnum):
        FAST = "fast"

    @checked
    def invented(
        *,
        count: int | Mapping[str, int] = 1,
        large: Count = 1,
        names: Sequence[str] = (),
        share: float | Mapping[str, float] = 1.0,
        size: int | tuple[int, int] = 1,
        mode: Literal["fast", "exact"] = "exact",
        parts: Sequence[tuple[str, float]] = (),
        weights: Sequence[float] = (),
        corners: Sequence[Sequence[float] | None] = (),
        steps: Sequence[Count] = (),
    ) -> Any:
        several = (count, large, names, share, size, mode, parts, weights, corners, steps)
        return next(one for one in several if one not in (1, "exact", ()))

    given: list[tuple[dict[str, Any], Any]] = [
        ({"count": torch.tensor(3)}, 3),
        ({"count": np.array(3)}, 3),
        ({"large": tf.constant(3)}, 3),
        ({"count": {"train": np.int32(3)}}, {"train": 3}),
        ({"share": {"train": np.float32(0.5), "test": Fraction(1, 2)}}, {"train": 0.5, "test": 0.5}),
        ({"share": torch.tensor(0.5)}, 0.5),
        ({"size": np.array([3, 4])}, (3, 4)),
        ({"size": [np.int64(3), 4]}, (3, 4)),
        ({"mode": Mode.FAST}, "fast"),
        ({"parts": {"a": 2.0}.items()}, [("a", 2.0)]),
        ({"parts": deque([("a", 2.0)])}, [("a", 2.0)]),
        ({"parts": [("a", np.float32(0.5))]}, [("a", 0.5)]),
        ({"names": np.array(["a", "b"])}, ["a", "b"]),
        ({"weights": [np.float32(0.5), 1]}, [0.5, 1]),
        ({"weights": (np.int64(3), np.float64(0.5))}, (3, 0.5)),
        ({"weights": torch.tensor([0.5, 0.25])}, [0.5, 0.25]),
        ({"corners": [None, (np.float32(0.5), 1.0)]}, [None, (0.5, 1.0)]),
        ({"steps": range(1, 3)}, range(1, 3)),
        ({"steps": [np.uint8(3)]}, [3]),
    ]
    for named, expected in given:
        found = invented(**named)
        assert found == expected
        assert type(found) is type(expected)
        assert "np." not in repr(found)
        assert "tensor" not in repr(found)


def test_a_new_option_is_checked_without_another_line() -> None:
    @checked
    def invented(path: str | os.PathLike[str], *, flag: bool = False) -> tuple[Any, bool]:
        return path, flag

    assert invented("x", flag=True) == ("x", True)
    for given in ({"path": ""}, {"path": b"x"}, {"path": "a\0b"}, {"path": "x", "flag": "no"}):
        with pytest.raises(UsageError, match=r"^(path|flag): got .*, expected (a path|True or False)"):
            invented(**given)  # type: ignore[arg-type]  # that is the point


def test_typing_is_asked_once_for_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes 20 µs each time, which was 20 s for a million dicts."""
    asked: list[Any] = []
    for module in (declared, shapes):
        for name in ("get_origin", "get_args"):
            real = getattr(module, name)
            monkeypatch.setattr(module, name, lambda hint, real=real: asked.append(hint) or real(hint))

    @checked
    def count(dicts: Sequence[Mapping[str, Any]], keys: Sequence[str | bytes]) -> int:
        return len(dicts) + len(keys)

    assert count([{"image": "a.jpg"}] * 5_000, ["a", b"b"] * 5_000) == 15_000
    assert 0 < len(asked) < 100
    with pytest.raises(UsageError, match=r"dicts: got 3 in the list"):
        count([{}] * 5_000 + [3], [])  # type: ignore[list-item]  # the fault


def test_a_device_beyond_any_number(place: Place) -> None:
    with pytest.raises(UsageError, match=r"device: got 1000000000000000000000000000000"):
        to_device([], 10**30)


TEXTS: dict[str, Callable[[str], object]] = {
    "license": lambda text: converters.CardOptions(license=text),
    "sources": lambda text: converters.CardOptions(sources=["a", text]),
    "published": lambda text: converters.CardOptions(published=text),
    "address": lambda text: converters.RayWorkers(address=text),
    "engine": lambda text: converters.NamedWorkers(text),
    "url": lambda text: converters.push("data", text),
    "balance": lambda text: Global(balance=text),
}


@pytest.mark.promise(73)
@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800", "caf\udce9"], ids=ascii)
@pytest.mark.parametrize("name", TEXTS)
def test_text_that_no_file_and_no_address_can_have(name: str, text: str) -> None:
    with pytest.raises(UsageError, match=rf"^{name}: got '[^']+'.*, expected text in UTF-8 without NUL"):
        TEXTS[name](text)


@pytest.mark.promise(73)
@pytest.mark.parametrize("rows", [list, tuple, np.array], ids=lambda rows: rows.__name__)
def test_a_list_that_is_too_long_is_refused_unread(rows: Callable[[Any], Any]) -> None:
    class Read(Sequence[Any]):
        def __len__(self) -> int:
            return 10**6

        def __getitem__(self, index: Any) -> Any:
            raise AssertionError("an element is looked at")

    for shapes_of_batches in (rows([(32, 32)] * 131_071), Read()):
        with pytest.raises(UsageError, match=r"^shapes: got .*, expected "):
            Global(shapes=shapes_of_batches)
    with pytest.raises(UsageError, match=r"^shapes: got a list of 1,000,000, expected at most 131,070$"):
        Global(shapes=Read())


@pytest.mark.promise(73)
def test_integers_that_no_message_can_show(flowers: Dataset) -> None:
    digits: Any = 10**5000

    @checked
    def take(any_integer: int = 0, positive: declared.Positive = 1, some: Sequence[int] = ()) -> None:
        raise AssertionError("it is called")

    for arguments, problem in (
        ({"any_integer": -digits}, "expected an integer of at most 63 digits"),
        ({"positive": digits}, "expected an integer of at least 1, and of at most 63 digits"),
        ({"some": [1, digits]}, "expected an integer of at most 63 digits"),
    ):
        with pytest.raises(UsageError, match=f"^{next(iter(arguments))}: got .*an integer of .* bits.*, {problem}$"):
            take(**arguments)
    batches = shardfeed.keras_batches(shardfeed.array_batches(flowers["train"], batch_size=4, image_size=8))
    with pytest.raises(UsageError, match=r"^index: got an integer of"):
        batches[digits]


@pytest.mark.promise(73)
@pytest.mark.parametrize("indices", [np.array(3), np.zeros((2, 2), int), "a", [[0]], np.array([0.5])], ids=repr)
@pytest.mark.parametrize("method", ["places", "payloads"])
def test_what_is_no_list_of_indices(flowers: Dataset, method: str, indices: Any) -> None:
    train = flowers["train"]
    for samples in (train, train[3:], mix([(train, 1)])):
        with pytest.raises(UsageError, match=r"^indices: got .*, expected ndarray of one dimension"):
            getattr(samples, method)(indices)


@pytest.mark.promise(73)
def test_a_key_of_megabytes_is_shown_by_its_beginning(flowers: Dataset) -> None:
    key, train = "x" * 10**7, flowers["train"]
    for call in (
        lambda: train.column(key),
        lambda: shardfeed.array_batches(train, batch_size=4, image_size=8, label=key),
        lambda: shardfeed.array_batches(train, batch_size=4, image_size=8, features=[key]),
        lambda: shardfeed.array_batches(train, batch_size=4, image_size=8, order=Global(balance=key)),
        lambda: shardfeed.predict_batches(train, batch_size=4, image_size=8, key=key),
    ):
        with pytest.raises(UsageError) as raised:
            call()
        assert len(str(raised.value)) < 1000


@pytest.mark.promise(73)
def test_a_skip_counts_errors_of_records_alone() -> None:
    with pytest.raises(UsageError, match=r"^error: got 3, expected RecordError"):
        Skip(3).note(3)  # type: ignore[arg-type]  # the fault


@pytest.mark.promise(73)
@pytest.mark.parametrize("index", ["a", 0.5, None, -1, 10**5000], ids=lambda index: type(index).__name__)
def test_a_mix_has_no_sample_at(flowers: Dataset, index: Any) -> None:
    with pytest.raises(UsageError, match=r"^index: got .*, expected an integer"):
        mix([(flowers["train"], 1)]).where(index)


def test_what_is_read_once_is_checked_as_it_is_read(flowers: Dataset, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"keys: got 3 in the list, expected text"):
        remove(flowers.directory, tmp_path / "out", iter(["a.jpg", 3]))  # type: ignore[list-item]  # the fault


def test_false_is_no_number_and_nul_no_encoding(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"voc_origin: got False, expected 0 or 1"):
        AnnotationOptions(voc_origin=False)
    (tmp_path / "labels.csv").write_text("path,label\na.jpg,b\n")
    with pytest.raises(UsageError, match="encoding"):
        open_source(tmp_path / "labels.csv", options=LabelOptions(encoding="a\0b"))


def test_convert_names_itself_and_takes_a_number_of_pytorch_as_a_seed(flowers_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"^convert\(\) got an unexpected keyword argument 'sed'"):
        convert(flowers_folder, tmp_path / "out", sed=1)  # type: ignore[call-arg]  # the fault
    with pytest.raises(TypeError, match=r"^convert\(\) missing a required argument: 'out'"):
        convert(flowers_folder)  # type: ignore[call-arg]  # the fault
    convert(flowers_folder, tmp_path / "out", seed=torch.tensor(3), dry_run=True)  # type: ignore[arg-type]


def test_types_are_named_in_one_order() -> None:
    for hint in (Sequence[int | str], Sequence[str | int]):
        with pytest.raises(UsageError, match=r"expected a list of text or an integer$"):
            check("name", 1.5, hint)


def test_an_alias_is_checked_as_the_type_that_it_stands_for() -> None:
    """NumPy's NDArray is such an alias from Python 3.12 on."""
    number = TypeVar("number", bound=np.generic)
    alias: Any = TypeAliasType("alias", np.ndarray[tuple[Any, ...], np.dtype[number]], type_params=(number,))
    check("name", np.arange(3), alias[np.integer])
    for wrong in ("text", np.zeros(3)):
        with pytest.raises(UsageError, match=r"^name: got .*, expected ndarray of one dimension$"):
            check("name", wrong, alias[np.integer])


@pytest.mark.parametrize("kind", [np.datetime64, np.timedelta64])
@pytest.mark.parametrize("value", ["NaT", 3])
def test_a_time_of_numpy_is_neither_none_nor_a_number(kind: Any, value: Any) -> None:
    """NumPy's item() makes None of NaT, and a number of nanoseconds."""
    with pytest.raises(UsageError, match="count"):
        converters.LocalWorkers(count=kind(value, "ns"))


def test_payloads_refuses_an_index_without_dimensions(place: Place) -> None:
    """An array without dimensions is one index, not several."""
    with pytest.raises(UsageError, match="indices"):
        place.data["train"].payloads(np.array(0))
