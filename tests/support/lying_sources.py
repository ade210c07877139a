"""Sources of one's own that raise or return what no source may: each lie, and who is to blame for it.

A lie of a sample is told for sample 2 of 5, the others are sound. `SAMPLE`: the sample is rejected with its number.
`SOURCE`: an error names the class of the source. `RULE`: an error names the sample, whose key, split, id or value no
dataset can hold. `NONE`: it does not matter.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shardfeed.annotations import BOX, OBJECT_LABEL
from shardfeed.converters import Findings, Sample, SourceInfo
from shardfeed.converters.rejects import RejectCode, RejectedError
from shardfeed.converters.sources.source import MaskTable, Objects, RasterImage, Skipped, SourceFile
from shardfeed.schema import LABEL, TEXT, Feature, Schema

SAMPLE, SOURCE, RULE, NONE = "sample", "source", "rule", "none"
COUNT, LIAR = 5, 2
IMAGE = min((Path(__file__).parents[2] / "data_samples/shapes").rglob("*.jpg")).read_bytes()
FEATURES: Mapping[str, Any] = {
    LABEL: Feature("int64"),
    TEXT: Feature("bytes"),
    OBJECT_LABEL: Feature("int64", (None,)),
    **{side: Feature("float32", (None,), "box") for side in BOX},
}
SCHEMA = Schema(dict(FEATURES), {LABEL: ("a", "b"), OBJECT_LABEL: ("x", "y")})


class Odd(BaseException):
    """No Exception: what catches all errors by `except Exception` lets it pass."""


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def raising(error: BaseException | type[BaseException]) -> Callable[..., Any]:
    def raises(*_: Any) -> Any:
        raise error

    return raises


def deep(*_: Any) -> Any:
    return deep()


def sound(i: int) -> Sample:
    """A sample without a lie."""
    objects = Objects(np.array([[1.0, 2, 30, 40]]), {OBJECT_LABEL: [i % 2]}, ("box 0",))
    return Sample(b"%d.jpg" % i, IMAGE, {LABEL: i % 2, TEXT: b"ab"[i % 2 : i % 2 + 1]}, objects=objects)


class Lying:
    """A source whose `SCHEMA`, length, `info` or sample 2 is replaced."""

    def __init__(
        self, sample: Callable[[int], Any] = sound, *, length: Any = COUNT, schema: Any = SCHEMA, info: Any = None
    ) -> None:
        self._sample, self._length, self._schema = sample, length, schema
        self.prefix = b""  # of keys
        if info is not None:
            self.info = info

    @property
    def schema(self) -> Any:
        return self._schema() if callable(self._schema) else self._schema

    def __len__(self) -> Any:
        return self._length() if callable(self._length) else self._length

    def __getitem__(self, i: int) -> Any:
        if not 0 <= i < COUNT:
            raise IndexError(i)
        made = self._sample(i) if i == LIAR else sound(i)
        plain = isinstance(made, Sample) and isinstance(made.key, bytes) and not made.key.startswith(b".")
        return replace(made, key=self.prefix + made.key) if plain and self.prefix else made


class Junk:
    """An object whose attributes and methods raise."""

    def __getattr__(self, name: str) -> Any:
        raise ValueError("junk has nothing")

    def __repr__(self) -> str:
        return "junk\x1b[31m\n"


class Image:
    """A picklable function that gives or raises something."""

    def __init__(self, given: Any, **fields: Any) -> None:
        self.given = given
        vars(self).update(fields)

    def __call__(self) -> Any:
        if isinstance(self.given, BaseException):
            raise self.given
        return self.given


class Unpicklable(Image):
    def __reduce__(self) -> Any:
        raise ValueError("not \x1b for others")


def fails_there(*_: Any) -> Any:
    raise ValueError("not \x1b here")


class Undone(Image):
    """It can be pickled, and not be loaded."""

    def __reduce__(self) -> Any:
        return fails_there, ()


class Sometimes:
    """Sound when the plan is made, and a fault afterwards."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.asked, self.error = 0, error

    def __call__(self, i: int) -> Any:
        self.asked += 1
        if self.asked == 1:
            return sound(i)
        if self.error is not None:
            raise self.error
        return None


class Lie(NamedTuple):
    blamed: str
    make: Callable[[], Lying]


def of(**changes: Any) -> Callable[[], Lying]:
    """A source whose sample has other fields."""
    return lambda: Lying(lambda i: replace(sound(i), **changes))


def of_objects(**changes: Any) -> Callable[[], Lying]:
    return lambda: Lying(lambda i: replace(sound(i), objects=replace(sound(i).objects, **changes)))  # type: ignore[type-var]


def of_features(**changes: Any) -> Callable[[], Lying]:
    keys = {"label": LABEL, "text": TEXT}
    new = {keys.get(name, name): value for name, value in changes.items()}
    return lambda: Lying(lambda i: replace(sound(i), features={**sound(i).features, **new}))


def gives(value: Any) -> Callable[[], Lying]:
    return lambda: Lying(lambda i: value)


def informs(value: Any) -> Callable[[], Lying]:
    return lambda: Lying(info=value)


def mask(**changes: Any) -> Callable[[], Lying]:
    raster = RasterImage(b"", MaskTable(((0, 0),)))
    return lambda: Lying(lambda i: replace(sound(i), raster=replace(raster, **changes)))


LIES: dict[str, Lie] = {
    # source[i] raises
    **{
        f"raises {type(error).__name__}": Lie(SAMPLE, lambda error=error: Lying(raising(error)))
        for error in (
            ValueError("bo\x1bom\n"),
            KeyError("x"),
            IndexError(2),
            StopIteration(),
            OSError(5, "no disk"),
            MemoryError(),
            SystemExit(3),
            AssertionError(),
            UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
            RejectedError(RejectCode.CORRUPT, "so\x1b"),
            RejectedError(5, None),  # type: ignore[arg-type]
            Odd("odd"),
            Silent(),
        )
    },
    "raises a class": Lie(SAMPLE, lambda: Lying(raising(ZeroDivisionError))),
    "recursion": Lie(SAMPLE, lambda: Lying(deep)),
    # source[i] returns junk
    "None": Lie(SAMPLE, gives(None)),
    "a tuple": Lie(SAMPLE, gives((b"1.jpg", IMAGE))),
    "the class": Lie(SAMPLE, gives(Sample)),
    "junk": Lie(SAMPLE, gives(Junk())),
    "an error": Lie(SAMPLE, gives(RejectedError(RejectCode.CORRUPT, "returned"))),
    # fields of a sample
    "image None": Lie(SAMPLE, of(image=None)),
    "image text": Lie(SAMPLE, of(image="1.jpg")),
    "image a class": Lie(SAMPLE, of(image=Image)),
    "image a path": Lie(SAMPLE, of(image=Path("1.jpg"))),
    "image raises": Lie(SAMPLE, of(image=Image(ValueError("bo\x1bom")))),
    "image raises SystemExit": Lie(SAMPLE, of(image=Image(SystemExit(3)))),
    "image raises Odd": Lie(SAMPLE, of(image=Image(Odd()))),
    "image raises junk": Lie(SAMPLE, of(image=Image(RejectedError("x", 5)))),  # type: ignore[arg-type]
    "image gives None": Lie(SAMPLE, of(image=Image(None))),
    "image gives text": Lie(SAMPLE, of(image=Image("x"))),
    "image of size x": Lie(SAMPLE, of(image=Image(IMAGE, size="x"))),
    "image of size -1": Lie(SAMPLE, of(image=Image(IMAGE, size=-1))),
    "image of time nan": Lie(SAMPLE, of(image=Image(IMAGE, mtime_ns=float("nan")))),
    "image of time 2^70": Lie(SAMPLE, of(image=Image(IMAGE, mtime_ns=2**70))),
    "file of a str": Lie(SAMPLE, of(image=SourceFile("x.jpg", 3, 0))),  # type: ignore[arg-type]
    "file of size -1": Lie(SAMPLE, of(image=SourceFile(b"x.jpg", -1, 0))),
    "file of time nan": Lie(SAMPLE, of(image=SourceFile(b"x.jpg", 3, float("nan")))),  # type: ignore[arg-type]
    "features 5": Lie(SAMPLE, of(features=5)),
    "features junk": Lie(SAMPLE, of(features=Junk())),
    "objects 5": Lie(SAMPLE, of(objects=5)),
    "objects junk": Lie(SAMPLE, of(objects=Junk())),
    "raster 5": Lie(SAMPLE, of(raster=5)),
    "mask None": Lie(SAMPLE, mask(mask=None)),
    "mask table 5": Lie(SAMPLE, mask(table=5)),
    "mask name 5": Lie(SAMPLE, mask(name=5)),
    "mask table of text": Lie(SAMPLE, mask(table=MaskTable((("a", 1),)))),  # type: ignore[arg-type]
    "boxes a list": Lie(SAMPLE, of_objects(boxes=[[1, 2, 3, 4]])),
    "boxes of three": Lie(SAMPLE, of_objects(boxes=np.zeros((1, 3)))),
    "boxes of text": Lie(SAMPLE, of_objects(boxes=np.array([["1", "2", "3", "4"]]))),
    "columns 5": Lie(SAMPLE, of_objects(columns=5)),
    "columns of text": Lie(SAMPLE, of_objects(columns={OBJECT_LABEL: ["x"]})),
    "columns of a class too many": Lie(SAMPLE, of_objects(columns={OBJECT_LABEL: [2]})),
    "columns of 2^70": Lie(SAMPLE, of_objects(columns={OBJECT_LABEL: [2**70]})),
    "object names 5": Lie(SAMPLE, of_objects(names=5)),
    "object size x": Lie(SAMPLE, of_objects(size="x")),
    "points 5": Lie(SAMPLE, of_objects(points=5)),
    "areas x": Lie(SAMPLE, of_objects(areas="x")),
    "another class's text": Lie(SAMPLE, of_features(label=0, text=b"zzz")),
    # the rules of names, ids and values: one wrong is a wrong source
    "key text": Lie(RULE, of(key="1.jpg")),
    "key above": Lie(RULE, of(key=b"../1.jpg")),
    "key twice": Lie(RULE, of(key=b"0.jpg")),
    "split 5": Lie(RULE, of(split=5)),
    "split with a slash": Lie(RULE, of(split="a/\x1bb")),
    "number -1": Lie(RULE, of(number=-1)),
    "label None": Lie(RULE, of_features(label=None)),
    "label 7": Lie(RULE, of_features(label=7, text=b"a")),
    "label text": Lie(RULE, of_features(label="a")),
    "label 2^70": Lie(RULE, of_features(label=2**70)),
    "a feature too many": Lie(RULE, of_features(other=1)),
    "column without a feature": Lie(RULE, of_objects(columns={OBJECT_LABEL: [0], "a\x1bb": [1, 2]})),
    "image not picklable": Lie(RULE, of(image=Unpicklable(IMAGE))),
    "image not loadable": Lie(RULE, of(image=Undone(IMAGE))),
    # len, schema, info
    "length -1": Lie(SOURCE, lambda: Lying(length=-1)),
    "length text": Lie(SOURCE, lambda: Lying(length="x")),
    "length None": Lie(SOURCE, lambda: Lying(length=lambda: None)),
    "length raises": Lie(SOURCE, lambda: Lying(length=raising(ValueError("\x1bno")))),
    "length raises Odd": Lie(SOURCE, lambda: Lying(length=raising(Odd))),
    "length 2^62": Lie(SOURCE, lambda: Lying(length=2**62)),
    "length 2^70": Lie(SOURCE, lambda: Lying(length=2**70)),
    "length 2^38": Lie(SOURCE, lambda: Lying(length=2**38)),
    "schema None": Lie(SOURCE, lambda: Lying(schema=None)),
    "schema a dict": Lie(SOURCE, lambda: Lying(schema={})),
    "schema junk": Lie(SOURCE, lambda: Lying(schema=Junk)),
    "schema raises": Lie(SOURCE, lambda: Lying(schema=raising(ValueError("\x1bno")))),
    "info raises": Lie(SOURCE, informs(raising(ValueError("\x1bno")))),
    "info raises Odd": Lie(SOURCE, informs(raising(Odd))),
    "info None": Lie(SOURCE, informs(lambda: None)),
    "info junk": Lie(SOURCE, informs(Junk)),
    "info text": Lie(SOURCE, informs("text")),
    "info of a fingerprint 5": Lie(SOURCE, informs(lambda: SourceInfo(fingerprint=5))),  # type: ignore[arg-type]
    "info of a fingerprint of 70": Lie(SOURCE, informs(lambda: SourceInfo(fingerprint="a" * 70))),
    "info of options": Lie(SOURCE, informs(lambda: SourceInfo(made_with={"x": object()}))),
    "info of options nan": Lie(SOURCE, informs(lambda: SourceInfo(made_with={"x": float("nan")}))),
    "info of findings 5": Lie(SOURCE, informs(lambda: SourceInfo(findings=5))),  # type: ignore[arg-type]
    "info of notes 5": Lie(SOURCE, informs(lambda: SourceInfo(Findings(notes=[5])))),  # type: ignore[list-item]
    "info of rejected 5": Lie(SOURCE, informs(lambda: SourceInfo(Findings(rejected=[5])))),  # type: ignore[list-item]
    "info of skipped 5": Lie(SOURCE, informs(lambda: SourceInfo(Findings(rejected=[Skipped(5, 5, 5)])))),  # type: ignore[arg-type]
    "info of onto 5": Lie(SOURCE, informs(lambda: SourceInfo(onto=5))),
    "info of described 5": Lie(SOURCE, informs(lambda: SourceInfo(described=5))),  # type: ignore[arg-type]
    # between the plan and the writing
    "raises when written": Lie(SAMPLE, lambda: Lying(Sometimes(ValueError("later \x1b")))),
    "None when written": Lie(SAMPLE, lambda: Lying(Sometimes())),
    # no lies
    "sound": Lie(NONE, Lying),
    "length of numpy": Lie(NONE, lambda: Lying(length=lambda: np.int64(COUNT))),
    "notes with control characters": Lie(NONE, informs(lambda: SourceInfo(Findings(notes=["a\x1b\n"]), "d\x1b"))),
}
