"""`array_batches`: the bytes of TensorFlow and of PyTorch at each step, on any rank; positions; threads that end."""

import itertools
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import scenes
from foreign_tfrecords import write

import shardfeed
from shardfeed.converters import ImageFolder, adopt, convert, from_dicts, survey
from shardfeed.errors import IntegrityError, OrderMismatchError, RecordError, UsageError
from shardfeed.pipelines import (
    Blocks,
    Cache,
    Global,
    Position,
    Ranks,
    array_batches,
    cached,
    eval_array_batches,
    mix,
)
from shardfeed.readers import Dataset, Skip, Split
from shardfeed.schema import ENCODED, LABEL

from decoding_paths import COMPILED, PYTHON, built, path_taken
from processes import until
from repository import SUPPORT

BATCH, SIZE = 12, (20, 24)
PATHS = [pytest.param(COMPILED, marks=built), PYTHON]


def arrays(split: Any, **options: Any) -> Any:
    return array_batches(split, **({"batch_size": BATCH, "image_size": SIZE, "seed": 5} | options))


def of_torch(split: Any, **options: Any) -> Any:
    from shardfeed.pipelines.torch import random_resized_crop, torch_loader

    crop = random_resized_crop(SIZE, antialias=False)
    return torch_loader(split, **({"batch_size": BATCH, "image_transform": crop, "seed": 5, "workers": 0} | options))


def of_tensorflow(split: Any, replicas: int, order: Any, **options: Any) -> Any:
    """The batches of the replicas of one pipeline, one after the other, from step 0 on."""
    from shardfeed.pipelines import order_samples, random_resized_crop
    from shardfeed.pipelines.tensorflow.assembly import Share, assemble_batches
    from shardfeed.pipelines.tensorflow.labels import labelled

    batch_size, damaged = options.get("batch_size", BATCH), options.get("damaged")
    arranged, chosen = order_samples(split, batch_size=batch_size, seed=5, order=order)
    crop = labelled(random_resized_crop(SIZE), LABEL, split.schema)
    given: Any = {"pad": None, "keys": [ENCODED, LABEL], "damaged": damaged, "parallelism": 2}
    batches = assemble_batches(arranged, chosen, crop, start_step=0, share=Share(replicas), **given)
    return batches.as_numpy_iterator()


def assert_alike(split: Any, ranks: int, steps: int, order: Any, **options: Any) -> list[Any]:
    """The same batches from NumPy and PyTorch on each rank, and from TensorFlow for each replica; of both epochs."""
    parts = [arrays(split, order=order, start_step=0, ranks=Ranks(rank, ranks), **options) for rank in range(ranks)]
    theirs = [of_torch(split, order=order, start_step=0, ranks=Ranks(rank, ranks), **options) for rank in range(ranks)]
    replicas, found = of_tensorflow(split, ranks, order, **options), []
    for mine, torchs in itertools.islice(zip(zip(*parts, strict=True), zip(*theirs, strict=True), strict=True), steps):
        for batch, torch in zip(mine, torchs, strict=True):
            assert_same(batch, torch)
            assert_same(batch, next(replicas))
        found.append([np.concatenate(part) for part in zip(*mine, strict=True)])
    assert len(found) == steps
    return found


def assert_same(found: Any, expected: Any) -> None:
    """Batches (images, labels), of which `expected` may be tensors of any framework."""
    images, labels = (np.asarray(part) for part in expected)
    images = images if images.shape[-1] == 3 else images.transpose(0, 2, 3, 1)
    assert (found[0].dtype, found[1].dtype) == (np.uint8, labels.dtype)
    assert np.array_equal(found[0], images)
    assert np.array_equal(found[1], labels)


@pytest.mark.parametrize("order", ["global", Blocks(buffer=40)], ids=str)
@pytest.mark.parametrize("path", PATHS)
def test_the_same_bytes_as_both_frameworks_at_each_step(flowers: Dataset, path: str, order: Any) -> None:
    pytest.importorskip("cv2")
    from shardfeed.pipelines import train_batches

    train, steps = flowers["train"], 16  # of more than one epoch
    with path_taken(path):
        options: dict[str, Any] = {"batch_size": BATCH, "image_size": SIZE, "seed": 5, "order": order}
        theirs = list(train_batches(train, start_step=0, **options).take(steps).as_numpy_iterator())
        for ranks in (1, 2, 4):
            for whole, tensorflow in zip(assert_alike(train, ranks, steps, order), theirs, strict=True):
                assert_same(whole, tensorflow)
        late = train_batches(train, start_step=5, **options)
        assert_same(next(late.as_numpy_iterator()), theirs[5])


@pytest.mark.parametrize(
    "options",
    [
        {"order": Blocks(buffer=40)},
        {"order": "stored"},
        {"order": Global(balance="class")},
        {"order": Global(epoch_samples=60)},
        {"mixed": True},
        {"mixed": {0: (2, 0), 5: (1, 1)}},
    ],
    ids=str,
)
def test_every_order_is_pytorchs(flowers: Dataset, options: dict[str, Any]) -> None:
    pytest.importorskip("cv2")
    train = flowers["train"]
    options = dict(options)
    weights = options.pop("mixed", None)
    samples = train if weights is None else mix([train[:50], train[50:]], {0: (2, 1)} if weights is True else weights)
    found, expected = arrays(samples, **options), of_torch(samples, **options)
    for _ in range(2):  # iterations are epochs
        for batch, same in zip(found, expected, strict=True):
            assert_same(batch, same)


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("path", PATHS)
def test_evaluation_and_prediction_have_every_sample_once(flowers: Dataset, path: str, ranks: int) -> None:
    pytest.importorskip("cv2")
    from shardfeed.pipelines import eval_batches, predict_batches
    from shardfeed.pipelines.torch import resize_center_crop, torch_eval_loader

    split, options = flowers["validation"], {"batch_size": 12, "image_size": SIZE}
    crop: Any = resize_center_crop(SIZE, antialias=False)
    with path_taken(path):
        for rank in range(ranks):
            share = Ranks(rank, ranks)
            found = eval_array_batches(split, ranks=share, **options)
            expected = torch_eval_loader(split, batch_size=12, image_transform=crop, ranks=share, workers=0)
            assert len(found) == len(expected)
            for _ in range(2):
                for batch, same in zip(found, expected, strict=True):
                    assert_same(batch, same)
        if ranks == 1:
            for batch, same in zip(found, eval_batches(split, **options).as_numpy_iterator(), strict=True):
                assert_same(batch, same)
            theirs = predict_batches(split, **options).as_numpy_iterator()
            named = eval_array_batches(split, features=["image/filename"], **options)
            for batch, (same, likewise) in zip(named, theirs, strict=True):
                assert np.array_equal(batch["images"], same)
                assert batch["image/filename"] == likewise.tolist()


@pytest.mark.parametrize("options", [{}, {"limit": 1 << 24}, {"decoded": True}], ids=str)
def test_a_cache_changes_no_byte(flowers: Dataset, tmp_path: Path, options: dict[str, Any]) -> None:
    """Copied at once, fetched on the way, and decoded."""
    pytest.importorskip("cv2")
    copy = cached(flowers["train"], Cache(tmp_path / "cache", **options))
    for found, expected in zip(arrays(copy), arrays(flowers["train"]), strict=True):
        assert_same(found, expected)
    for found, expected in zip(
        eval_array_batches(copy, batch_size=50, image_size=16, ranks=Ranks(1, 2)),
        eval_array_batches(flowers["train"], batch_size=50, image_size=16, ranks=Ranks(1, 2)),
        strict=True,
    ):
        assert_same(found, expected)


def test_resumes_at_every_step_on_any_number_of_ranks(flowers: Dataset, tmp_path: Path) -> None:
    train = flowers["train"]
    whole = arrays(train, start_step=0)
    steps = len(whole) + 3
    expected = list(itertools.islice(whole, steps))
    saved = arrays(train)
    taken = 0
    for _ in range(2):
        for batch in saved:
            if taken < steps:
                assert_same(batch, expected[taken])
            taken += 1
            saved.position.save(tmp_path / f"{taken}.json")
    for step in range(1, steps):
        position = Position.load(tmp_path / f"{step}.json")
        assert position is not None
        assert position.step == step
        for ranks in (1, 4) if step % 5 == 0 else (1,):
            parts = [arrays(train, ranks=Ranks(rank, ranks)) for rank in range(ranks)]
            for part in parts:
                part.seek(position)
            shares = next(zip(*parts, strict=True))
            assert_same([np.concatenate(part) for part in zip(*shares, strict=True)], expected[step])
            assert parts[0].position.step == step + 1
        assert_same(next(iter(arrays(train, start_step=step))), expected[step])
    resumed = arrays(train)
    resumed.seek(Position(4, resumed.order))
    assert len(list(resumed)) == len(resumed) - 4
    assert (resumed.step, resumed.epoch) == (len(resumed), 1)
    done = f"order global, seed 5, {len(resumed)} steps per epoch, {len(resumed)} done"
    assert repr(resumed) == f"TrainingArrays('train', batch size {BATCH}, {done})"
    for other in (arrays(train, seed=6), arrays(train, batch_size=6), arrays(flowers["validation"])):
        with pytest.raises(OrderMismatchError, match="saved with another order"):
            other.seek(resumed.position)


def test_an_iteration_left_early_counts_as_an_epoch(flowers: Dataset) -> None:
    batches = arrays(flowers["train"])
    next(iter(batches))
    assert batches.step == 1
    iter(batches)
    assert batches.step == len(batches)
    endless = arrays(flowers["train"], start_step=3)
    assert_same(next(iter(endless)), next(iter(arrays(flowers["train"], start_step=3))))
    assert_same(next(iter(endless)), next(iter(arrays(flowers["train"], start_step=4))))
    assert repr(endless).endswith(f"{len(batches)} steps per epoch, endless, 5 done)")


def abandon(split: Split, times: int) -> None:
    """Leave so many iterations in the middle, each in one of the ways in which loops end."""
    batches = arrays(split, image_size=8)
    for turn in range(times):
        taken = itertools.islice(itertools.count(), turn % 3)
        if turn % 5 == 0:
            for _ in batches:
                if next(taken, None) is None:
                    break
        elif turn % 5 == 1:
            with pytest.raises(ZeroDivisionError):
                for _ in batches:
                    _ = 1 // 0
        elif turn % 5 == 2:
            iterator = iter(batches)
            del iterator
        elif turn % 5 == 3:
            with arrays(split, image_size=8) as others:
                iterator = iter(others)
                next(iterator)
            with pytest.raises(UsageError, match="closed"):
                list(iterator)
        else:
            first, second = iter(batches), iter(batches)
            next(second)
            with pytest.raises(UsageError, match="iterated again"):
                next(first)
            del first, second


def test_no_thread_is_left_of_abandoned_iterations(flowers: Dataset, threads_left: Callable[[], list[str]]) -> None:
    abandon(flowers["train"], 100)
    assert threads_left() == []


@pytest.mark.long
def test_no_thread_is_left_of_a_thousand(flowers: Dataset, threads_left: Callable[[], list[str]]) -> None:
    abandon(flowers["train"], 1000)
    assert threads_left() == []


def test_threads_end_with_the_last_batch(flowers: Dataset, threads_left: Callable[[], list[str]]) -> None:
    batches = eval_array_batches(flowers["validation"], batch_size=9, image_size=8)
    iterator = iter(batches)
    assert len(list(iterator)) == len(batches)
    assert threads_left() == []  # while it is referred to
    assert next(iterator, None) is None


def test_few_batches_are_made_ahead(flowers: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0
    lock = threading.Lock()
    payloads = Split.payloads

    def counted(*given: Any) -> Any:
        nonlocal read
        with lock:
            read += 1
        return payloads(*given)

    monkeypatch.setattr(Split, "payloads", counted)
    for taken, _ in enumerate(arrays(flowers["train"]), 1):
        until(lambda taken=taken: read >= min(taken + 2, 13), 0.001)  # of the two threads, each has one ready
        assert read <= taken + 4


PROGRAM = """
import os, sys, threading
sys.path.insert(0, {support!r})
if {hide}:
    import core_only
    core_only.OPTIONAL.add("cv2")
    sys.meta_path[:] = map(core_only.WithoutExtras, sys.meta_path)
import shardfeed
train = shardfeed.open({path!r})["train"]
batches = shardfeed.array_batches(train, batch_size=4, image_size=16, start_step=0)
iterator = iter(batches)
images, labels = next(iterator)
print(images.shape, labels.dtype, flush=True)
{rest}
"""
FORKED = """
child = os.fork()
if child == 0:
    try:
        for _ in range(20):
            next(iterator)
    except shardfeed.errors.UsageError as error:
        print(error)
    again = next(iter(batches))
    print((again[0] == next(iter(shardfeed.array_batches(train, batch_size=4, image_size=16, start_step=1)))[0]).all())
    sys.exit(3)  # with all that Python does at its end
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
print(next(iterator)[0].shape)
"""


@pytest.fixture
def photos(folder: Callable[..., Path], tmp_path: Path) -> Path:
    """A dataset of 24 JPEGs."""
    convert(ImageFolder(folder(8)), tmp_path / "photos", split={"train": 1.0}, shards={"train": 1}, workers=1)
    return tmp_path / "photos"


def run(photos: Path, rest: str, *, hide: bool = False) -> list[str]:
    code = PROGRAM.format(support=str(SUPPORT), path=str(photos), rest=rest, hide=hide)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


@built
def test_the_core_alone_makes_batches(photos: Path) -> None:
    """Without any extra, and without OpenCV."""
    rest = "print(sorted({'cv2', 'torch', 'tensorflow'} & sys.modules.keys()))"
    assert run(photos, rest, hide=True) == ["(4, 16, 16, 3) int64", "[]"]


@built
def test_what_needs_opencv_says_so(photos: Path) -> None:
    """JPEGs without the compiled module; likewise any other image."""
    rest = """
os.environ["SHARDFEED_NATIVE"] = "0"
try:
    next(iter(shardfeed.array_batches(train, batch_size=4, image_size=16)))
except shardfeed.errors.MissingExtraError as error:
    print(str(error).splitlines()[0])
"""
    (problem,) = run(photos, rest, hide=True)[-1:]
    assert problem.startswith("images: OpenCV")
    assert problem.endswith("pip install opencv-python-headless")


def test_the_interpreter_ends_in_the_middle_of_an_iteration(photos: Path) -> None:
    assert run(photos, "") == ["(4, 16, 16, 3) int64"]
    assert run(photos, "del batches; sys.modules['kept'] = iterator") == ["(4, 16, 16, 3) int64"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_in_the_middle_of_an_iteration(photos: Path) -> None:
    shape, problem, same, again = run(photos, "import warnings; warnings.simplefilter('ignore')\n" + FORKED)
    assert shape == "(4, 16, 16, 3) int64"
    assert "prefetch: its threads are in the process from which this one was forked" in problem
    assert (same, again) == ("True", "(4, 16, 16, 3)")


@pytest.fixture
def damaged(folder: Callable[..., Path], tmp_path: Path) -> Split:
    """24 samples in one shard, two of which are damaged: 3 and 17."""
    convert(ImageFolder(folder(8)), tmp_path / "out", split={"train": 1.0}, shards={"train": 1}, workers=1)
    train = shardfeed.open(tmp_path / "out")["train"]
    shard = Path(train.shards.path(0))
    content = bytearray(shard.read_bytes())
    for index in (3, 17):
        image: Any = train[index]["image/encoded"]
        content[content.index(image) + 50] ^= 0xFF
    shard.write_bytes(content)
    return shardfeed.open(tmp_path / "out")["train"]


def test_damaged_records(damaged: Split, threads_left: Callable[[], list[str]]) -> None:
    with pytest.raises(RecordError, match="record 3"):
        list(arrays(damaged, batch_size=4, order="stored"))
    assert threads_left() == []
    with pytest.warns(RuntimeWarning, match="left out"), pytest.raises(IntegrityError, match="damaged record number 2"):
        list(arrays(damaged, batch_size=4, order="stored", damaged=Skip(1)))
    expected = of_torch(damaged, batch_size=4, damaged=Skip(2))
    with pytest.warns(RuntimeWarning, match="left out"):
        found = list(arrays(damaged, batch_size=4, damaged=Skip(2)))
    with pytest.warns(RuntimeWarning, match="left out"):
        theirs = list(expected)
    for batch, same in zip(found, theirs, strict=True):
        assert_same(batch, same)
    skip = Skip(2)
    options: dict[str, Any] = {"image_size": 16, "damaged": skip}
    with pytest.warns(RuntimeWarning, match="left out"):
        found = list(eval_array_batches(damaged, batch_size=4, **options))
    assert sum(len(labels) for _, labels in found) == 22
    assert len(list(eval_array_batches(damaged, batch_size=1, **options))) == 22
    assert len(skip.found) == 2
    with pytest.raises(IntegrityError, match="all damaged"):
        for rank in range(2):
            list(eval_array_batches(damaged, batch_size=2, ranks=Ranks(rank, 2), **options))


@pytest.mark.filterwarnings("ignore:left out:RuntimeWarning")
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("order", ["stored", Blocks(buffer=12)], ids=str)
def test_damaged_records_are_replaced_alike(damaged: Split, order: Any, ranks: int) -> None:
    pytest.importorskip("cv2")
    skip = Skip(2)
    assert_alike(damaged, ranks, 8, order, batch_size=8, damaged=skip)
    assert len(skip.found) == 2


def test_an_image_that_does_not_decode_is_named(flowers_folder: Path, tmp_path: Path) -> None:
    images = [path.read_bytes() for path in sorted(flowers_folder.rglob("*.jpg"))[:8]]
    rows = [{"image": images[n] if n != 5 else images[n][:-30], "label": n} for n in range(8)]
    write(tmp_path / "in" / "train.tfrecord", rows)
    adopt(survey(tmp_path / "in"), tmp_path / "out")
    split = shardfeed.open(tmp_path / "out")["train"]
    assert "image/encoded" not in split.schema.features  # but an alias
    with pytest.raises(RecordError, match=r"record 5, .*: it does not decode"):
        list(arrays(split, batch_size=4, order="stored"))
    intact = split.select([0, 1, 2, 3, 4, 6, 7])
    for batch, same in zip(arrays(intact, batch_size=3), of_torch(intact, batch_size=3), strict=True):
        assert_same(batch, same)


def test_labels_of_other_kinds_and_features(flowers: Dataset, tmp_path: Path) -> None:
    dicts: list[dict[str, Any]] = []
    for number, record in enumerate(flowers["validation"]):
        tags = [name for bit, name in enumerate(("clear", "haze", "road")) if number >> bit & 1]
        dicts.append(
            {
                "key": f"{number}.jpg",
                "image": record["image/encoded"],
                "tags": tags,
                "caption": [f"{number}"] * (number % 3),
            }
        )
    convert(from_dicts(dicts), tmp_path / "out", split={"train": 1.0}, workers=1)
    train = shardfeed.open(tmp_path / "out")["train"]
    for batch, same in zip(arrays(train), of_torch(train), strict=True):
        assert batch[1].shape == (BATCH, 3)
        assert_same(batch, same)
    text = next(key for key in train.schema.features if key.endswith("caption"))
    keys = ["image/class/label", text, "image/filename", "image/height"]
    batches = eval_array_batches(train, batch_size=16, image_size=SIZE, features=keys)
    start = 0
    for batch in batches:
        assert list(batch) == ["images", *keys]
        records = [train[start + i] for i in range(len(batch["images"]))]
        for key in keys:
            for value, record in zip(batch[key], records, strict=True):
                assert np.array_equal(value, record[key]), key  # type: ignore[arg-type]
        start += len(records)
    assert isinstance(batch["image/height"], np.ndarray)
    assert isinstance(batch["image/class/label"], list)
    with pytest.raises(UsageError, match=r"label: .* add 'image/label' to features"):
        array_batches(train, batch_size=4, image_size=SIZE, label="image/label", features=keys)
    with pytest.raises(UsageError, match="letterbox: area, aspect_ratio and flip are of crops"):
        array_batches(train, batch_size=4, image_size=SIZE, letterbox=True, flip=False)
    with pytest.raises(UsageError, match="letterbox: crop_fraction"):
        eval_array_batches(train, batch_size=4, image_size=SIZE, letterbox=True, crop_fraction=0.5)
    with pytest.raises(UsageError, match="features: got 'image/encoded', expected features beside the image"):
        arrays(train, features=["image/encoded"])
    with pytest.raises(UsageError, match="targets: got 'box'"):
        arrays(train, targets=["box"])
    assert isinstance(next(iter(arrays(train, targets=np.array([], str)))), tuple)
    with pytest.raises(UsageError, match=r"^targets: this dataset has no objects with classes"):
        arrays(train, targets=["boxes"])


@pytest.mark.parametrize("task", ["masks", "keypoints"])
@pytest.mark.parametrize("letterbox", [False, True])
def test_objects_are_lists_of_pytorchs_arrays(tmp_path: Path, task: Any, letterbox: bool) -> None:
    pytest.importorskip("cv2")
    from shardfeed.pipelines import torch as of_torch

    convert(scenes(task), tmp_path / "out", split={"train": 1.0}, workers=1)
    train = shardfeed.open(tmp_path / "out")["train"]
    options: dict[str, Any] = {"batch_size": 4, "seed": 3}
    crop = of_torch.letterbox if letterbox else of_torch.random_resized_crop
    made: dict[str, Any] = {task: True}
    transform = of_torch.detection(crop(64, antialias=False), **made)
    expected = of_torch.torch_loader(train, transform=transform, workers=0, **options)
    batches = array_batches(train, image_size=64, letterbox=letterbox, targets=["boxes", task], **options)
    lengths = set()
    for batch, (images, targets) in zip(batches, expected, strict=True):
        assert np.array_equal(batch["images"], images.permute(0, 2, 3, 1).numpy())
        for number, target in enumerate(targets):
            lengths.add(len(target["boxes"]))
            for key in target.keys() - {"orig_size", "image_id"}:
                mine = batch[key][number]
                assert mine.dtype == target[key].numpy().dtype
                assert np.array_equal(mine, target[key].numpy()), key
        assert isinstance(batch["boxes"], list)
        assert ("scale" in batch) == letterbox
    assert len(lengths) > 1


def test_rasters(tmp_path: Path) -> None:
    pytest.importorskip("cv2")
    from shardfeed.pipelines import torch as of_torch

    convert(scenes("rasters"), tmp_path / "out", split={"train": 1.0}, workers=1)
    train = shardfeed.open(tmp_path / "out")["train"]
    transform = of_torch.segmentation(of_torch.random_resized_crop(64, antialias=False))
    expected = of_torch.torch_loader(train, batch_size=4, transform=transform, workers=0)
    batches = array_batches(train, batch_size=4, image_size=64, targets=["raster"], features=["image/filename"])
    for batch, (images, masks) in zip(batches, expected, strict=True):
        assert np.array_equal(batch["images"], images.permute(0, 2, 3, 1).numpy())
        assert batch["raster"].dtype == np.int32
        assert np.array_equal(batch["raster"], masks.numpy())
        assert len(batch["image/filename"]) == 4


def test_a_letterbox_of_rasters_without_void_is_refused_with_a_way_that_works(tmp_path: Path) -> None:
    convert(scenes("rasters"), tmp_path / "out", split={"train": 1.0}, workers=1)
    train = shardfeed.open(tmp_path / "out")["train"]
    assert train.schema.raster is not None
    train.schema = replace(train.schema, raster=replace(train.schema.raster, void=None))
    options: dict[str, Any] = {"batch_size": 4, "image_size": 64, "targets": ["raster"]}
    with pytest.raises(UsageError, match=r"^targets: .* no void value.*leave letterbox out"):
        array_batches(train, letterbox=True, **options)
    assert "raster" in next(iter(array_batches(train, **options)))


def test_arguments(flowers: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    train = flowers["train"]
    for place, options in (
        ("order", {"order": "stream"}),
        ("ranks", {"ranks": 2}),
        ("batch_size", {"batch_size": 9, "ranks": Ranks(0, 2)}),
        ("area", {"area": (0.5, 2.0)}),
        ("features", {"features": "image/height"}),
    ):
        with pytest.raises(UsageError, match=f"^{place}: "):
            arrays(train, **options)
    with pytest.raises(UsageError, match="expected at most 40"):
        eval_array_batches(flowers["validation"], batch_size=82, image_size=8, ranks=Ranks(0, 41))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert_same(next(iter(arrays(train))), next(iter(arrays(train, ranks=Ranks(1, 2)))))


PROCESS_OF_JAX = """
import sys
import jax, numpy as np, shardfeed
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from shardfeed.pipelines import Ranks

path, address, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
jax.distributed.initialize(address, 2, rank)
options = {"batch_size": 8, "image_size": 16}
train = shardfeed.open(path)["train"]
mesh = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), PartitionSpec("data"))
shares = shardfeed.array_batches(train, **options)
expected = shardfeed.array_batches(train, **options, ranks=Ranks(rank, 2))
for (images, labels), (same, likewise) in zip(shares, expected, strict=True):
    assert (images == same).all() and (labels == likewise).all()
    whole = jax.make_array_from_process_local_data(mesh, images)
    assert whole.shape == (8, 16, 16, 3)
    assert (np.asarray(whole.addressable_shards[0].data) == images).all()
print(len(shares))
"""


@pytest.mark.long
def test_each_process_of_jax_gets_its_share(photos: Path) -> None:
    pytest.importorskip("jax")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-c", PROCESS_OF_JAX, str(photos), address]
    both = [
        subprocess.Popen([*command, str(rank)], env=os.environ | {"JAX_PLATFORMS": "cpu"}, stdout=subprocess.PIPE)
        for rank in range(2)
    ]
    assert [process.communicate(timeout=300)[0] for process in both] == [b"3\n", b"3\n"]


@pytest.mark.long
def test_arrays_of_jax_keep_their_pixels(photos: Path) -> None:
    """Also where JAX uses the batch's own memory, which later batches must not fill."""
    jax = pytest.importorskip("jax")
    train = shardfeed.open(photos)["train"]
    batches = array_batches(train, batch_size=4, image_size=64, start_step=0)
    kept, copies = [], []
    for images, _ in itertools.islice(batches, 30):
        kept.append(jax.device_put(images))
        copies.append(images.copy())
    del images
    for found, expected in zip(kept, copies, strict=True):
        assert np.array_equal(np.asarray(found), expected)
