"""Calls of every public function and class, each with one argument that its user cannot have meant.

`python tests/support/argument_fuzz.py 20000` prints how the calls ended, and each kind of fault once.
"""

import inspect
import math
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from PIL import Image

import shardfeed
from shardfeed import converters, pipelines, readers
from shardfeed.errors import IntegrityError, ShardfeedError

from pictures import image_bytes

# Public names that nobody calls with arguments of their own: results, protocols, and the parts of a reader.
NOT_CALLED = {
    *("Dataset", "DatasetReport", "Split", "ShardSlice", "Progress", "Pulled", "Pushed", "Rebuilt", "Report"),
    *(
        "Salvaged",
        "Survey",
        "Exported",
        "SourceInfo",
        "ShardTasks",
        "Position",
        "Feed",
        "EvalFeed",
        "ArrayBatches",
        "TrainingArrays",
    ),
    *("SampleLoader", "TorchLoader", "Target", "Engine", "Source", "MakingOptions", "RejectCode", "AnnotationCode"),
    *("Annotations", "ColumnInfo", "Evidence", "Findings", "Gather", "Look", "Parts", "Reader", "Row", "Skipped"),
    *("SourceFile", "choose_roles", "find_files", "write_shard", "Stored", "WaitRecorder", "Sample"),
    *("as_dataset", "prefetch_ray"),  # tensors, a cluster
    *("Augmentation", "recipes"),
    "__version__",
}


class Odd:
    """An object of no use to anybody."""

    def __repr__(self) -> str:
        return "<Odd>"


class Hostile:
    """An object whose own methods fail, however it is looked at."""

    def _fail(self, *_: object) -> Any:
        raise ZeroDivisionError("of its own")

    __repr__ = __str__ = __len__ = __iter__ = __getitem__ = __contains__ = __index__ = __float__ = __bool__ = _fail
    __fspath__ = __array__ = __eq__ = __lt__ = __format__ = _fail
    __hash__ = object.__hash__
    ndim = shape = dtype = item = property(_fail)


class Lines:
    """An object that is shown on several lines, with a control character."""

    def __repr__(self) -> str:
        return "<first\nsecond\x1b[31m>"


class Lying(Sequence[Any]):
    """A sequence with another length than it says."""

    def __init__(self, elements: Sequence[Any], said: int) -> None:
        self.elements, self.said = elements, said

    def __len__(self) -> int:
        return self.said

    def __getitem__(self, index: Any) -> Any:
        return self.elements[index]


class NoPath:
    """A path-like object whose path is a number."""

    def __fspath__(self) -> Any:
        return 3


def nested(levels: int) -> list[Any]:
    """A list in a list, so many times."""
    made: list[Any] = []
    for _ in range(levels):
        made = [made]
    return made


DEEP = nested(3000)
EXTREMES = [10**400, -(10**400), 10**5000, 2**63 - 1, -(2**63), 2**64, 5e-324, 1.8e308, complex(0, 1), -0.0]
HOSTILE = [Hostile(), Lines(), NoPath(), [Hostile()], {"x": Hostile()}, (Hostile(), 3), {"x": DEEP}, [DEEP], DEEP]
HOSTILE += [Lying([1, 2], 7), Lying(["image", "label"], 0), Lying([[3, 3]] * 4, 2)]
ARRAYS = [
    *(np.zeros((2, 2)), np.zeros((0, 3)), np.array([None, "x"], object), np.array(3), np.array([1, 2], np.uint64)),
    *(np.array([(1, 2.0)], [("a", int), ("b", float)]), np.full(3, np.nan), np.array([10**30], object)),
]


def values(draws: random.Random) -> Any:
    """A value of any kind."""
    return draws.choice([
        *(None, True, False, -1, 0, 3, 2**63, 10**30, 1.5, math.nan, math.inf, -math.inf, 1e300, 1 + 2j),
        *("", " ", "x", "no", "nan", "a\0b", "\ud800", "../../x", "9" * 70, "x" * 5000, "-1", "0.5", "[", "2TB"),
        *(b"", b"x", b"\xff", bytearray(b"x"), Path("x"), Path("a\0b")),
        *([], [3], ["x"], [None], [b"x"], ["x", "x"], (), (0, 2), (1, 2, 3), (math.nan, 1.0), ("a", "b")),
        *({}, {"x": 3}, {"train": math.nan}, {"trian": 0.5, "test": 0.5}, {3: 3}, {"x": None}, {"train": "x"}),
        *({"train": True}, {None: 1}, {"": 1}, set(), {3}, frozenset({"x"}), range(3), iter([3]), Ellipsis),
        *(Odd(), Odd, int, len, lambda: 0, lambda *given: 0, np.int64(3), np.float32(0.5), np.zeros(2), np.array("x")),
        np.bool_(True), *EXTREMES, *HOSTILE, *ARRAYS, (number for number in [3]), memoryview(b"x"), slice(0, "x"),
        *((0,), (1, 2, 3, 4), [1, "x"], "\x1b[31m", "x\ny", [10**30], (10**400, 3), {"x": 10**400}, "1" * 5000),
    ])  # fmt: skip


def misspelt(word: str, draws: random.Random) -> str:
    """A word, nearly."""
    at = draws.randrange(len(word))
    return draws.choice([word[:at] + word[at + 1 :], word[:at] + word[at] + word[at:], word.upper(), word + " "])


@dataclass(frozen=True)
class Door:
    """A function that a user calls, and arguments that are right, which each call makes anew."""

    name: str
    call: Callable[..., Any]
    given: Callable[[], dict[str, Any]]
    use: Callable[[Any], object] = lambda result: None  # what only shows a wrong argument later
    hints_of: Any = None

    def hints(self) -> dict[str, Any]:
        """The type of each argument; that of a TypedDict's keys for `**options`."""
        described = self.hints_of or (self.call.__init__ if inspect.isclass(self.call) else self.call)
        described = inspect.unwrap(described)
        found = {}
        for name, hint in getattr(described, "declared", inspect.get_annotations(described)).items():
            if name == "making":
                found |= get_type_hints(get_args(hint)[0])
            elif name not in ("return", "options") or described.__name__ == "open_source":
                found[name] = hint
        return {name: hint for name, hint in found.items() if name != "return"}


def method(
    name: str,
    call: Callable[..., Any],
    given: dict[str, Any],
    use: Callable[[Any], object] = lambda result: None,
    *,
    positional: str = "",
    hints_of: Any = None,
) -> Door:
    """A door to a method. `positional`: its argument, if it is an operator's, and has no name for the caller."""
    function: Any = call
    if positional:
        function = partial(by_position, call, positional)
    return Door(name, function, partial(dict, given), use, hints_of or getattr(call, "__func__", call))


def by_position(call: Callable[..., Any], name: str, **given: Any) -> Any:
    """Call an operator with its argument."""
    return call(given[name])


def next_of(batches: Any) -> None:
    """Take a batch, if there is one."""
    next(iter(batches), None)


class Place:
    """A folder with an image folder, a label file, and a dataset, in which calls are made."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._count = folder, 0
        for number in range(9):
            for kind, blue in (("photos", 0), ("more", 99)):
                path = folder / f"{kind}/{('circle', 'square', 'triangle')[number % 3]}/{number}{kind}.jpg"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(image_bytes(Image.new("RGB", (16, 12), (25 * number, 0, blue)), "JPEG"))
        (folder / "labels.csv").write_text("path,label\n" + "".join(f"{name},{name[:3]}\n" for name in self._names()))
        converters.convert(folder / "photos", folder / "data", split={"train": 0.5, "test": 0.5}, workers=1)
        converters.convert(folder / "more", folder / "moredata", workers=1)
        self.data = readers.open(folder / "data")

    def out(self) -> str:
        """A new path."""
        self._count += 1
        return str(self.folder / f"made/{self._count}")

    def copy(self) -> str:
        """A dataset that may be changed."""
        return shutil.copytree(self.folder / "data", self.out())

    def doors(self, *, tensorflow: bool) -> list[Door]:
        """All of them, once."""
        split, data = self.data["train"], str(self.folder / "data")
        photos, table = str(self.folder / "photos"), str(self.folder / "labels.csv")
        making: dict[str, Any] = {"workers": 1}

        def fresh(**given: Any) -> Callable[[], dict[str, Any]]:
            return lambda: {"out": self.out(), **given}

        def of(module: Any, name: str, given: Any = None, use: Any = lambda result: None, **more: Any) -> Door:
            made: Any = given if callable(given) else (lambda: dict(given or {}))
            return Door(
                f"{module.__name__.removeprefix('shardfeed.')}.{name}", getattr(module, name), made, use, **more
            )

        def one(batches: Any) -> None:
            next(iter(batches))

        class_names = {"class_names": ["circle", "square", "triangle"]}
        convert = partial(converters.convert, photos, workers=1)
        c, p = converters, pipelines
        batch = {"batch_size": 2}
        sized = {**batch, "image_size": 16}
        found = [
            of(c, "convert", fresh(source=photos, workers=1)),
            of(c, "shard_tasks", fresh(source=photos)),
            of(c, "commit_shards", lambda: {"tasks": c.shard_tasks(photos, self.out())}),
            of(c, "open_source", {"path": photos}, lambda source: source[0]),
            of(
                c,
                "from_dicts",
                lambda: {"dicts": [{"image": f"{photos}/{name}", "label": 0} for name in self._names()], **class_names},
                len,
            ),
            of(c, "ImageFolder", {"root": photos}, len),
            of(c, "Unlabelled", {"root": photos}, len),
            of(c, "FileNames", {"root": f"{photos}/circle", "pattern": "(?P<label>.).*"}, len),
            of(c, "LabelFile", {"path": table, "root": photos}, len),
            *(
                of(c, name, {}, use)
                for name, use in [
                    ("ImageOptions", lambda options: convert(self.out(), image=options)),
                    ("LabelOptions", lambda options: c.open_source(photos, options=options)),
                    ("AnnotationOptions", lambda options: c.open_source(photos, options=options)),
                    ("ColumnOptions", lambda options: c.open_source(photos, options=options)),
                    ("CardOptions", lambda options: c.card(self.copy(), options)),
                ]
            ),
            Door(
                "LabelOptions of a table",
                c.LabelOptions,
                lambda: {"labels": table},
                lambda options: len(c.open_source(photos, options=options)),
            ),
            of(c, "Shares", {"shares": {"train": 0.5, "test": 0.5}}, lambda shares: convert(self.out(), split=shares)),
            of(c, "LocalWorkers"),
            of(c, "RayWorkers"),
            of(c, "NamedWorkers", {"engine": "here"}),
            of(c, "append", fresh(dataset=data, source=str(self.folder / "more"), **making)),
            of(c, "merge", fresh(datasets=[data, str(self.folder / "moredata")], **making)),
            of(c, "filter", fresh(dataset=data, where="height > 3", **making)),
            of(c, "remove", fresh(dataset=data, keys=["circle/0photos.jpg"], **making)),
            of(c, "relabel", fresh(dataset=data, classes={"circle": "ring"}, **making)),
            of(c, "reshard", fresh(dataset=data, **making)),
            of(c, "split", fresh(dataset=data, split={"train": 0.5, "validation": 0.5}, of="train", **making)),
            of(c, "export", fresh(dataset=data, to="folder")),
            of(c, "salvage", fresh(path=data)),
            of(c, "rebuild", {"path": data, "dry_run": True}),
            of(c, "survey", {"path": data}),
            of(c, "adopt", lambda: {"survey": c.survey(data), "out": self.out()}),
            of(c, "push", {"directory": data, "url": "s3:/no"}),
            of(c, "pull", lambda: {"url": "s3:/no", "directory": self.out()}),
            of(shardfeed, "report", {"data": data, "keep": f"{data}-kept"}),
            of(shardfeed, "preview", {"split": split, "image_size": 16}),
            of(readers, "open", {"path": data}),
            of(c, "card", lambda: {"path": self.copy()}),
            of(readers, "verify", {"path": data}),
            of(readers, "Skip", {"limit": 3}),
            Door(
                "Dataset[]",
                lambda name: self.data[name],
                lambda: {"name": "train"},
                hints_of=readers.Dataset.__getitem__,
            ),
            Door("Split[]", lambda key: split[key], lambda: {"key": 0}, hints_of=readers.Split.__getitem__),
            *(
                Door(f"Split.{name}", getattr(split, name), partial(dict, given), hints_of=getattr(readers.Split, name))
                for name, given in [
                    ("select", {"which": [0]}),
                    ("column", {"key": "image/height"}),
                    ("place", {"index": 0}),
                    ("where", {"index": 0}),
                    ("places", {"indices": np.zeros(1, np.int64)}),
                    ("payload", {"index": 0}),
                    ("payloads", {"indices": np.zeros(1, np.int64)}),
                    ("parse", {"payload": split.payload(0)}),
                ]
            ),
            Door("Split.without_damaged", split.without_damaged, lambda: {"damaged": readers.Skip(3)}, one),
            of(p, "array_batches", {"samples": split, **sized}, one),
            of(p, "eval_array_batches", {"split": split, **sized}, one),
            of(p, "Cache", lambda: {"directory": self.out()}, lambda cache: p.cached(split, cache)),
            of(p, "cached", lambda: {"samples": split, "cache": self.out()}),
            *(
                of(p, name, given)
                for name, given in [
                    ("Stream", {}),
                    ("Global", {"balance": "class"}),
                    ("Blocks", {}),
                    ("Ranks", {"rank": 0, "ranks": 2}),
                    ("crop", {"size": 16}),
                    ("mix", {"parts": [(split, 1.0), (split, 2.0)]}),
                    ("mix", {"parts": [split, split], "weights": {0: (3, 1), 5: (1, 1)}}),
                    ("shapes_of_area", {"area": 512 * 512}),
                    ("order_samples", {"samples": split, **batch}),
                    ("boxes_to_source", {"boxes": np.zeros((1, 4)), "scale": np.ones(2), "offset": np.zeros(2)}),
                    (
                        "masks_to_source",
                        {
                            "masks": np.zeros((1, 4, 4), np.uint8),
                            "scale": np.ones(2),
                            "offset": np.zeros(2),
                            "size": (4, 4),
                        },
                    ),
                ]
            ),
            *self._augment_doors(of, split, sized),
            of(p, "prefetch_threads", {"producers": [range(3)]}, lambda prefetcher: prefetcher.close()),
            of(p, "prefetch_processes", {"producers": [range(3)]}, lambda prefetcher: prefetcher.close()),
            *self._torch_doors(of, one, split, sized),
        ]
        return found + (self._tensorflow_doors(of, split, sized) if tensorflow else [])

    def _augment_doors(self, of: Any, split: Any, sized: dict[str, Any]) -> list[Door]:
        """The functions of `pipelines.augment`, whose values are given to a loader of two small batches."""
        a = pipelines.augment
        needed: dict[str, dict[str, Any]] = {
            "affine": {"degrees": 10},
            "gaussian_blur": {"kernel_size": 5},
            "one_of": {"transforms": [a.invert(), a.grayscale()], "weights": [1, 2]},
            "posterize": {"bits": 4},
            "random_apply": {"transforms": [a.invert()]},
            "sharpness": {"sharpness_factor": 2},
            "solarize": {"threshold": 128},
        }

        def augmented(one: Any) -> None:
            next_of(pipelines.array_batches(split, **sized, augment=[one], workers=1))

        def mixed(one: Any) -> None:
            next_of(pipelines.array_batches(split, **sized, batch_transform=one, workers=1))

        names = sorted({*a.__all__} - {"Augmentation", "recipes"})
        uses = {name: mixed if name in ("mixup", "cutmix") else augmented for name in names}
        mixings = {"transforms": [a.mixup(), a.cutmix()]}
        return [
            *(of(a, name, needed.get(name), uses[name]) for name in names),
            of(a, "one_of", mixings, mixed),
        ]

    def method_doors(self, *, tensorflow: bool) -> list[Door]:
        """Methods, operators and setters of what public functions return."""
        found = [*self._methods(), *self._torch_methods()]
        return found + (self._tensorflow_methods() if tensorflow else [])

    def _methods(self) -> list[Door]:
        split, p = self.data["train"], pipelines
        records = pipelines.array_batches(split, batch_size=2, image_size=16)
        evaluated = pipelines.eval_array_batches(split, batch_size=2, image_size=16)
        source = converters.open_source(str(self.folder / "photos"))

        def cut(index_from: Any = None, index_to: Any = None, index_by: Any = None) -> Any:
            return split[index_from:index_to:index_by]

        def bounds(index_from: int | float | None, index_to: int | float | None, index_by: int | None) -> None: ...

        def inside(name: object) -> bool:
            return name in self.data

        def watched() -> Any:
            waits = p.WaitRecorder()
            waits.record(1.0, 2.0)
            return waits

        waits = watched()
        mesh: Any = p.Ranks.of_mesh
        return [
            Door("Dataset in", inside, lambda: {"name": "train"}, hints_of=inside),
            Door("Split[:]", cut, dict, hints_of=bounds),
            method("Split.__getitems__", split.__getitems__, {"indices": [0, 1]}),
            method("WaitRecorder.record", watched().record, {"asked": 1.0, "came": 2.0}),
            method("WaitRecorder.share", waits.share, {"last": 1}),
            method("WaitRecorder.watch", waits.watch, {"batches": [3]}),
            Door("WaitRecorder.plot", waits.plot, lambda: {"path": self.out() + ".png"}),
            method("DatasetReport.save", shardfeed.report(self.folder / "data").save, {"output": self.out() + ".html"}),
            method("TrainingArrays.rest_of_epoch", records.rest_of_epoch, {"step": 1}, next_of),
            method("ArrayBatches.rest_of_epoch", evaluated.rest_of_epoch, {"step": 0}, next_of),
            method("TrainingArrays.seek", records.seek, {"position": records.position}),
            method("Ranks.of_mesh", mesh, {"mesh": None}),
            method("Source[]", source.__getitem__, {"index": 0}, positional="index"),
        ]

    def _torch_methods(self) -> list[Door]:
        split, p = self.data["train"], pipelines.torch
        crop = p.random_resized_crop(16)
        record = split[0]
        loader = p.torch_loader(split, batch_size=2, image_size=16, workers=0)
        feed = p.to_device(p.torch_loader(split, batch_size=2, image_size=16, workers=0), "cpu")
        texts = {**record, "text": [b"a", b"b"]}
        return [
            method("torch.draw_caption", p.draw_caption, {"record": texts, "seed": 3, "key": "text"}),
            method("torch.decode_image", p.decode_image, {"record": record}),
            method("torch crop()", crop, {"record": record, "seed": 3}, hints_of=type(crop).__call__),
            method("torch.detection.bind", p.detection(crop).bind, {"schema": split.schema}),
            method("torch.segmentation.bind", p.segmentation(crop).bind, {"schema": split.schema}),
            method("TorchLoader.set_epoch", loader.set_epoch, {"epoch": 1}),
            method("DeviceFeed.set_epoch", feed.set_epoch, {"epoch": 1}),
            Door("DeviceFeed.load_state_dict", feed.load_state_dict, lambda: {"state": feed.state_dict()}),
        ]

    def _tensorflow_methods(self) -> list[Door]:
        import tensorflow as tf

        split, p = self.data["train"], pipelines
        strategy = tf.distribute.get_strategy()
        feed = p.distribute(strategy, split, batch_size=2, image_size=16)
        batches = p.keras_batches(p.array_batches(split, batch_size=2, image_size=16))
        texts = {"text": tf.constant([b"a", b"b"])}
        seed = tf.constant([3, 3], tf.int64)
        crop = p.random_resized_crop(16)
        return [
            method("KerasBatches[]", batches.__getitem__, {"index": 0}, positional="index"),
            method("Feed.at", feed.at, {"start": 1}),
            method("Feed.position", feed.position, {"step": 1}),
            method("draw_caption", p.draw_caption, {"features": texts, "seed": seed, "key": "text"}),
            method("multi_hot of integers", p.multi_hot, {"labels": [0, 2], "classes": 3}),
            method("detection.bind", p.detection(crop).bind, {"schema": split.schema}),
            method("segmentation.bind", p.segmentation(crop).bind, {"schema": split.schema}),
        ]

    def _names(self) -> list[str]:
        return [os.fspath(path.relative_to(self.folder / "photos")) for path in (self.folder / "photos").rglob("*.jpg")]

    def _torch_doors(self, of: Any, one: Any, split: Any, sized: dict[str, Any]) -> list[Door]:
        import torch

        p = pipelines.torch
        loader = p.torch_loader(split, workers=0, **sized)
        crop = p.random_resized_crop(16)
        record = split[0]
        return [
            *(
                of(p, name, {first: split, **sized, "workers": 0}, one)
                for name, first in [
                    ("torch_loader", "samples"),
                    ("torch_eval_loader", "split"),
                    ("torch_predict_loader", "split"),
                ]
            ),
            *(
                of(p, name, {"size": 16}, lambda transform: transform(record, 3))
                for name in [
                    "random_resized_crop",
                    "resize_center_crop",
                    "letterbox",
                ]
            ),
            of(p, "detection", {"image": crop}),
            of(p, "segmentation", {"image": crop}),
            of(p, "multi_hot", {"labels": [0], "classes": 3}),
            of(p, "to_device", {"loader": loader, "device": "cpu"}),
            of(p, "Workers"),
            of(p, "Collate"),
            Door("TorchLoader.load_state_dict", loader.load_state_dict, lambda: {"state": loader.state_dict()}),
            Door(
                "to_device of pixels",
                p.to_device,
                lambda: {
                    "loader": loader,
                    "device": torch.device("cpu"),
                    "mean": (0.5, 0.5, 0.5),
                    "std": (0.2, 0.2, 0.2),
                },
            ),
        ]

    def _tensorflow_doors(self, of: Any, split: Any, sized: dict[str, Any]) -> list[Door]:
        import tensorflow as tf

        p = pipelines
        record = {"image/encoded": tf.constant(split[0]["image/encoded"])}
        strategy = tf.distribute.get_strategy()
        crop = p.random_resized_crop(16)

        def hot(classes: int) -> None: ...

        feed = p.distribute(strategy, split, **sized)
        return [
            of(p, "train_batches", {"samples": split, **sized}),
            of(p, "eval_batches", {"split": split, **sized}),
            of(p, "predict_batches", {"split": split, **sized}),
            of(p, "make_batches", {"samples": split, "transform": lambda features, seed: seed, "batch_size": 2}),
            of(p, "distribute", {"strategy": strategy, "samples": split, **sized}),
            of(p, "distribute_eval", {"strategy": strategy, "split": split, **sized}),
            *(
                of(p, name, {"size": 16}, lambda transform: transform(record, tf.constant([3, 3], tf.int64)))
                for name in ["random_resized_crop", "resize_center_crop", "letterbox"]
            ),
            of(p, "detection", {"image": crop}),
            of(p, "segmentation", {"image": crop}),
            Door("multi_hot", partial(p.multi_hot, tf.constant([0])), lambda: {"classes": 3}, hints_of=hot),
            of(p, "Backup", lambda: {"directory": self.out(), "feed": feed}),
            of(p, "keras_batches", {"batches": p.array_batches(split, **sized)}),
        ]


NAMES: set[str] = set()  # of the arguments of all doors
AS_IN_A_LIST = {"Split.place", "Split.where", "Split.payload", "Source[]", "Split[:]"}  # True is 1
LONGEST = 12_000  # characters of a message, with those of the text that was given, perhaps twice

# How a call may end: with an error of the package, or with what was meant after all.
RIGHT = {"named", "of another place", "unknown keyword", "right"}

_NEVER_NEGATIVE = re.compile(
    "size|workers|shards|count|buffer|limit|most|max|min|start|quality|bits|replicas|pixels|epoch"
)


def admits(hint: Any, value: Any) -> bool:
    """Whether a value is of a type, as far as a user would say so; elements only of literals and short texts."""
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype != object:
        value = value.item()
    origin, inner = get_origin(hint), get_args(hint)
    if hasattr(hint, "__metadata__"):
        return admits(inner[0], value)
    if origin in (Union, type(int | str)):
        return any(admits(each, value) for each in inner)
    if origin is Literal:
        value = value.item() if isinstance(value, np.generic) else value
        return type(value) in map(type, inner) and value in inner
    kind = origin or hint
    if kind is Any or not inspect.isclass(kind):
        return True
    if kind is type(None):
        return value is None
    if kind is bool:
        return isinstance(value, bool | np.bool_)
    if kind is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if kind is os.PathLike:
        return isinstance(value, os.PathLike)
    if kind in (Sequence, Iterable, Collection):
        return isinstance(value, Iterable) and not isinstance(value, str | bytes)
    if kind is tuple:
        is_row = isinstance(value, tuple | list) or (isinstance(value, np.ndarray) and value.ndim == 1)
        return is_row and (Ellipsis in inner or len(value) == len(inner))
    if kind is Mapping:
        return isinstance(value, Mapping)
    if kind is Callable or hint is Callable:
        return callable(value)
    return isinstance(value, kind) if kind in (str, bytes) else True


def ended(door: Door, name: str, value: Any, hint: Any, given: dict[str, Any]) -> tuple[str, str]:
    """How a call ended: a word, and what is to be seen of a fault."""
    shown = f"{door.name}({name}={in_short(value):.60})"
    try:
        with warnings.catch_warnings(), within(60):
            warnings.simplefilter("ignore")
            door.use(door.call(**given))
    except ShardfeedError as error:
        text = str(error)
        if not text.isprintable() or len(text) > LONGEST:
            return "unreadable", f"{shown}: {text!r:.300}"
        return of_place(error, text, name, given), f"{shown}: {text:.200}"
    except Exception as error:
        if "unexpected keyword argument" in str(error) and repr(name) in str(error):
            return "unknown keyword", ""
        if callable(value) and hint is not None and admits(hint, value):  # the caller's function failed
            return "right", ""
        if isinstance(error, IndexError) and door.name.startswith(("Split", "Source")):  # as of a sequence
            return "right", ""
        return "raw", f"{shown}: {type(error).__name__}: {error!s:.200} {where(error)}"
    as_in_a_list = isinstance(value, bool) and door.name in AS_IN_A_LIST
    if not admits(hint, value) and not as_in_a_list:
        return "accepted, of a wrong type", shown
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and _NEVER_NEGATIVE.search(name) and not value >= 0:
        return "accepted, out of range", shown
    return "right", ""


def of_place(error: ShardfeedError, text: str, name: str, given: Mapping[str, Any]) -> str:
    """Whether an error names the argument; else whether its place is one of the others, or of a file or record."""
    parts = f"{name.removeprefix('group_')}|{name.partition('_')[0]}"
    if re.search(parts, text):
        return "named"
    places = {place.strip().partition("[")[0] for place in str(error.place).split(",")}
    of_others = {"shuffle", "index"}  # what Keras asks for, and each of several indices
    is_place = bool(places & (NAMES | {*given, *of_others})) or "/" in str(error.place) or " " in str(error.place)
    is_place |= isinstance(given[name], str | os.PathLike) and shown_path(given[name]) == str(error.place)
    of_data = isinstance(error, LookupError | OSError | IntegrityError)  # which names a file, a split or a record
    return "of another place" if is_place or of_data else "nameless"


def shown_path(path: str | os.PathLike[str]) -> str:
    """A path as an error names it."""
    try:
        return os.fspath(path)
    except Exception:
        return ""


def in_short(value: Any) -> str:
    """A value as a report shows it, whatever it is."""
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


def where(error: BaseException) -> str:
    """The lines that raised an error: the last one of ours."""
    trace, found = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if "site-packages" not in file and "argument_fuzz" not in file:
            found = f"[{'/'.join(file.rsplit('/', 3)[-3:])}:{trace.tb_lineno}]"
        trace = trace.tb_next
    return found


def calls(doors: Sequence[Door], draws: random.Random, count: int) -> Iterable[tuple[Door, str, str, str]]:
    """Make that many calls: the door, the argument, how it ended, and what is to be seen of it."""
    hints = {door.name: door.hints() for door in doors}
    NAMES.update(*hints.values())
    for _ in range(count):
        door = draws.choice(doors)
        given = door.given()
        name = draws.choice([*hints[door.name]])
        value, hint = values(draws), hints[door.name][name]
        if draws.random() < 0.05:
            name, value = misspelt(name, draws), 3
            if name in hints[door.name] or not name.isidentifier():
                continue
            hint = int
        elif isinstance(given.get(name), str) and draws.random() < 0.2:
            value = misspelt(given[name], draws)
        elif name in ("workers", "count") and isinstance(value, int | np.integer) and value == 3:
            continue
        yield door, name, *ended(door, name, value, hint, {**given, name: value})


class TooSlowError(Exception):
    """A call has not ended in time."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise TooSlowError in the main thread if the block takes longer."""

    def stop(number: int, frame: object) -> None:
        raise TooSlowError(f"after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def main() -> None:
    """Print how calls end."""
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with tempfile.TemporaryDirectory() as folder:
        inner = Path(folder, "a/b")
        (inner / "made").mkdir(parents=True)
        os.chdir(inner)
        place = Place(inner)
        tally, seen = Counter[str](), dict[tuple[str, str, str], str]()
        doors = [*place.doors(tensorflow=True), *place.method_doors(tensorflow=True)]
        for number, (door, name, how, shown) in enumerate(calls(doors, random.Random(seed), count)):
            tally[how] += 1
            if how not in RIGHT:
                seen.setdefault((how, door.name, name), shown)
            if number % 50 == 0:
                shutil.rmtree(inner / "made")
                (inner / "made").mkdir()
        for how, shown in sorted((how, shown) for (how, _, _), shown in seen.items()):
            print(f"{how}: {shown}".encode("ascii", "backslashreplace").decode())
        print(dict(tally))


if __name__ == "__main__":
    main()
