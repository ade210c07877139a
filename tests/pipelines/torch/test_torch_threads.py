"""`torch_loader` in threads: nothing is left of an iteration, whatever ends it; the bytes are those of processes."""

import copy
import gc
import io
import itertools
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import scenes
from foreign_tfrecords import write
from PIL import Image
from seekable_images import several_jpegs
from torch.utils.data import DataLoader, SequentialSampler

import shardfeed
from shardfeed.converters import ImageFolder, ImageOptions, adopt, convert, survey
from shardfeed.errors import IntegrityError, RecordError
from shardfeed.pipelines import array_batches, mix
from shardfeed.pipelines.torch import (
    Workers,
    detection,
    letterbox,
    random_resized_crop,
    resize_center_crop,
    segmentation,
    to_device,
    torch_eval_loader,
    torch_loader,
    torch_predict_loader,
)
from shardfeed.readers import Dataset, Skip, Split

from decoding_paths import COMPILED, PYTHON, built, path_taken
from processes import AFTER_CTRL_C, until_gone

PROCESS = Workers(1, processes=True)
PATHS = [pytest.param(COMPILED, marks=built), PYTHON]


def loader(split: Any, **options: Any) -> Any:
    given: dict[str, Any] = {"batch_size": 12, "image_size": 16, "seed": 5} | options
    return torch_loader(split, **given)


def flat(batch: Any) -> list[bytes]:
    """The bytes of everything in a batch."""
    if isinstance(batch, torch.Tensor):
        return [repr((batch.shape, batch.dtype)).encode(), batch.contiguous().numpy().tobytes()]
    if isinstance(batch, dict):
        batch = [value for pair in sorted(batch.items()) for value in pair]
    return [repr(batch).encode()] if isinstance(batch, str | bytes) else [part for each in batch for part in flat(each)]


def all_bytes(batches: Any) -> list[list[bytes]]:
    return list(map(flat, batches))


def of_others(split: Split) -> Any:
    """A DataLoader of PyTorch's over the parts of ours."""
    ours = loader(split)
    return DataLoader(ours.dataset, batch_sampler=ours.batch_sampler, collate_fn=ours.collate_fn)


def abandon(split: Split, times: int) -> None:
    """Leave so many iterations in the middle, each in one of the ways in which loops end."""
    kinds: list[Callable[[], Any]] = [
        lambda: loader(split),
        lambda: torch_eval_loader(split, batch_size=12, image_size=16),
        lambda: torch_predict_loader(split, batch_size=12, image_size=16),
        lambda: of_others(split),
    ]
    ways: list[Callable[[Any], Any]] = [
        lambda batches: next(iter(batches)),
        lambda batches: iter(batches),
        lambda batches: [next(iter(batches)) for _ in range(2)],
        lambda batches: [1 // 0 for _ in batches],
        lambda batches: next(iter(to_device(batches, "cpu", dtype=None))),
        lambda batches: pickle.dumps(next(iter(batches))),
        lambda batches: [copy.deepcopy(batches) for _ in itertools.islice(batches, 2)],
    ]
    for turn in range(times):
        try:
            ways[turn // len(kinds) % len(ways)](kinds[turn % len(kinds)]())
        except ZeroDivisionError:
            continue


@pytest.fixture
def without_collector() -> Iterator[None]:
    """Nothing ends here because the garbage collector came by, only because nothing refers to it."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collector")
def test_no_thread_is_left_of_abandoned_iterations(flowers: Dataset, threads_left: Callable[[], list[str]]) -> None:
    abandon(flowers["train"], 56)
    assert threads_left() == []


@pytest.mark.long
@pytest.mark.usefixtures("without_collector")
def test_a_thousand_abandoned_iterations_leave_no_thread(
    flowers: Dataset, threads_left: Callable[[], list[str]]
) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    abandon(flowers["train"], 100)
    before = resident()
    abandon(flowers["train"], 1000)
    assert threads_left() == []
    assert resident() - before < 32 << 20


def test_threads_end_with_the_last_batch(flowers: Dataset, threads_left: Callable[[], list[str]]) -> None:
    ours, others = loader(flowers["train"]), of_others(flowers["train"])
    iterators = [iter(ours), iter(others)]
    assert all_bytes(iterators[0]) == all_bytes(iterators[1])
    assert threads_left() == []  # while all of these are referred to
    assert len([ours, others, *iterators]) == 4


def test_garbage_may_be_collected_in_one_of_the_threads(flowers: Dataset) -> None:
    """An iteration in a cycle is closed wherever the collector finds it: in a thread that it would wait for, too."""
    seen: set[str] = set()
    before = set(threading.enumerate())

    def collect(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name in ("submit", "_make"):
            seen.add(frame.f_code.co_name)
            gc.collect(0)

    threading.setprofile(collect)
    try:
        with path_taken(PYTHON):
            for _ in range(2):
                iterator = iter(loader(flowers["train"], workers=2))
                next(iterator)
                cycle: list[Any] = [iterator]
                cycle.append(cycle)
                del iterator, cycle
    finally:
        threading.setprofile(None)

    def left() -> set[threading.Thread]:
        gc.collect()  # again and again: it does nothing while one of the threads collects
        return set(threading.enumerate()) - before

    until_gone(left)
    assert seen == {"submit", "_make"}


@pytest.mark.parametrize("workers", [1, 8, pytest.param(64, marks=pytest.mark.long), Workers(3, prefetch=7)], ids=str)
def test_any_number_of_threads_makes_the_bytes_of_a_process(flowers: Dataset, workers: Any) -> None:
    expected = all_bytes(loader(flowers["train"], workers=PROCESS))
    assert all_bytes(loader(flowers["train"], workers=workers)) == expected
    assert all_bytes(loader(flowers["train"], workers=0)) == expected


def test_loaders_side_by_side(flowers: Dataset) -> None:
    """Two loops, four threads with one each, and one iterator that many threads take from."""
    expected = all_bytes(loader(flowers["train"]))
    both = [(flat(one), flat(other)) for one, other in zip(*(loader(flowers["train"]) for _ in range(2)), strict=True)]
    assert both == [(each, each) for each in expected]
    found: dict[int, Any] = {}
    shared, taken = iter(loader(flowers["train"])), []

    def loop(number: int) -> None:
        found[number] = all_bytes(loader(flowers["train"]))

    def take() -> None:
        taken.append(flat(next(shared)))

    threads = [threading.Thread(target=loop, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(found.values()) == [expected] * 4
    for _ in expected:
        thread = threading.Thread(target=take)
        thread.start()
        thread.join()
    assert taken == expected


def test_the_user_may_keep_and_change_batches(flowers: Dataset) -> None:
    """Memory is used again, but only once nothing refers to it."""
    rng, kept = random.Random(3), []
    both = zip(loader(flowers["train"], start_step=0), loader(flowers["train"], start_step=0, workers=0), strict=True)
    for (images, labels), (same, likewise) in itertools.islice(both, 150):
        assert torch.equal(images, same)
        assert torch.equal(labels, likewise)
        part: Any = rng.choice([images, images[3:5, 1], images.numpy()[7], torch.from_numpy(images.numpy()[1]), None])
        if part is None:
            images.zero_()
            labels.add_(7)
        else:
            kept.append((part, np.asarray(part).copy()))
        if len(kept) > 30:
            kept.pop(rng.randrange(30))
        del images, part
        for part, pixels in kept:
            assert np.array_equal(np.asarray(part), pixels)
        del part


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_copies_of_a_loader_that_runs(flowers: Dataset, copied: Callable[[Any], Any]) -> None:
    ours = loader(flowers["train"])
    expected, later = all_bytes(ours), all_bytes(ours)
    ours = loader(flowers["train"])
    batches = iter(ours)
    next(batches)
    other = copied(ours)
    assert all_bytes(batches) == expected[1:]
    assert other.step == 1
    assert all_bytes(other) == later  # as of a loop that was left


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_forks_in_the_middle(flowers: Dataset) -> None:
    """A child goes on by itself; so do workers of another loader over the dataset whose threads run."""
    expected, ours = all_bytes(loader(flowers["train"])), loader(flowers["train"])
    batches = iter(ours)
    next(batches)
    child = os.fork()
    if child == 0:
        same = all_bytes(batches) == expected[1:] and all_bytes(loader(flowers["train"])) == expected
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    parts: dict[str, Any] = {"collate_fn": ours.collate_fn, "num_workers": 2}
    fresh = loader(flowers["train"]).batch_sampler
    assert all_bytes(DataLoader(ours.dataset, batch_sampler=fresh, **parts)) == expected
    one_by_one = DataLoader(ours.dataset, batch_size=12, sampler=SequentialSampler(flowers["train"]), **parts)
    assert sum(len(images) for images, _ in one_by_one) == len(flowers["train"])
    assert all_bytes(batches) == expected[1:]


PROGRAM = """
import sys, threading, time
import shardfeed
split = shardfeed.open(sys.argv[1])["train"]
options = {"batch_size": 4, "image_size": 16, "start_step": 0}

def loop(make):
    for batch in make(split, **options):
        running.release()

def keep_going():
    try:
        while True:
            for batch in torch_loader(split, **options):
                running.release()
                time.sleep(0.001)
    finally:
        print("ended", flush=True)

running = threading.Semaphore(0)
"""
ENDS = {
    "the main thread's loop": "batches = iter(shardfeed.torch_loader(split, **options)); next(batches)",
    # Not `torch_loader`: where such a thread runs PyTorch's code when Python ends, Python before 3.14 unwinds it, and
    # C++ aborts the process, also in a loop over a DataLoader without us (40 of 40 tries).
    "daemon threads": """
for make in (shardfeed.array_batches, shardfeed.array_batches):
    threading.Thread(target=loop, args=(make,), daemon=True).start()
for _ in range(200):
    running.acquire()
""",
    "a cycle": "batches = [iter(shardfeed.torch_loader(split, **options))]; next(batches[0]); batches.append(batches)",
}


@pytest.mark.parametrize("code", ENDS.values(), ids=ENDS)
def test_the_interpreter_ends_in_the_middle(flowers: Dataset, code: str) -> None:
    """In silence."""
    program = [sys.executable, "-c", PROGRAM + code, flowers.directory]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("wait", [0.0, *(pytest.param(s / 50, marks=pytest.mark.long) for s in range(1, 20))])
def test_ctrl_c_gives_one_traceback(flowers: Dataset, wait: float) -> None:
    """The loader is imported before: Python's own enum chains two tracebacks where an import of it is interrupted."""
    code = PROGRAM + "torch_loader = shardfeed.torch_loader; print('begun', flush=True); keep_going()"
    program = [sys.executable, "-c", code, flowers.directory]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as trainer:
        assert trainer.stdout.readline() == "begun\n"
        time.sleep(wait)
        trainer.send_signal(signal.SIGINT)
        _, errors = trainer.communicate(timeout=300)
    assert (errors.count("Traceback"), errors.splitlines()[-1]) == (1, "KeyboardInterrupt"), errors
    assert trainer.returncode in AFTER_CTRL_C


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("antialias", [True, False])
def test_threads_and_processes_make_the_same_images(flowers: Dataset, antialias: bool, path: str) -> None:
    """In crops of each kind; the flowers are JPEGs and PNGs."""
    if not antialias:
        pytest.importorskip("cv2")
    with path_taken(path):
        for crop in (random_resized_crop, resize_center_crop, letterbox):
            options = {"image_size": None, "image_transform": crop((20, 24), antialias=antialias)}
            found, expected = (loader(flowers["train"], workers=workers, **options) for workers in (2, PROCESS))
            assert all_bytes(found) == all_bytes(expected)


@pytest.mark.parametrize("path", PATHS)
def test_images_of_every_kind(folder: Callable[..., Path], tmp_path: Path, path: str) -> None:
    """CMYK, gray, progressive and PNG, as other programs store them; and raw pixels beside JPEGs."""
    pytest.importorskip("cv2")
    files = several_jpegs(seed=2)
    for mode, form in (("CMYK", "JPEG"), ("L", "PNG"), ("RGBA", "PNG")):
        content = io.BytesIO()
        Image.fromarray(np.random.default_rng(1).integers(0, 256, (90, 70, 3), np.uint8)).convert(mode).save(
            content, form
        )
        files.append(content.getvalue())
    write(tmp_path / "in" / "train.tfrecord", [{"image": file, "label": n} for n, file in enumerate(files)])
    adopt(survey(tmp_path / "in"), tmp_path / "adopted")
    options: dict[str, Any] = {"split": {"train": 1.0}, "workers": 1}
    convert(ImageFolder(folder(4)), tmp_path / "jpeg", **options)
    convert(ImageFolder(folder(4)), tmp_path / "raw", **options, image=ImageOptions(encode="raw"))
    adopted, *parts = (shardfeed.open(tmp_path / name)["train"] for name in ("adopted", "jpeg", "raw"))
    both = mix([(part, 1) for part in parts])
    assert set(both.formats) == {"jpeg", "raw"}
    with path_taken(path):
        for split, antialias in itertools.product((adopted, both), (True, False)):
            made = {
                "image_size": None,
                "image_transform": random_resized_crop(16, antialias=antialias),
                "batch_size": 5,
            }
            found, expected = (loader(split, workers=workers, **made) for workers in (2, PROCESS))
            assert all_bytes(found) == all_bytes(expected)
        batches = array_batches(both, batch_size=24, image_size=16, features=["image/format"])
        assert {*next(iter(batches))["image/format"]} == {b"jpeg", b"raw"}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("task", ["masks", "keypoints", "rasters"])
def test_threads_and_processes_make_the_same_targets(tmp_path: Path, task: str, path: str) -> None:
    convert(scenes(task), tmp_path / "out", split={"train": 1.0}, workers=1)
    split = shardfeed.open(tmp_path / "out")["train"]
    with path_taken(path):
        for crop in (random_resized_crop(32), letterbox(32)):
            make: Any = segmentation(crop, void=255)
            if task != "rasters":
                make = detection(crop, masks=task == "masks", keypoints=task == "keypoints")
            options = {"image_size": None, "transform": make, "batch_size": 4}
            found, expected = (loader(split, workers=workers, **options) for workers in (2, PROCESS))
            assert all_bytes(found) == all_bytes(expected)


def test_damaged_records_are_counted_alike(flowers: Dataset, tmp_path: Path) -> None:
    shutil.copytree(flowers.directory, tmp_path / "damaged")
    for name in ("train", "validation"):
        shard = next((tmp_path / "damaged").glob(f"{name}-00000*"))
        content = bytearray(shard.read_bytes())
        for row in (1, 9):
            image: Any = shardfeed.open(flowers.directory)[name][row]["image/encoded"]
            content[content.index(image) + 50] ^= 0xFF
        shard.write_bytes(content)
    data = shardfeed.open(tmp_path / "damaged")
    for workers in (2, PROCESS):
        with pytest.raises(RecordError, match="record 1,"):
            list(loader(data["train"], order="stored", workers=workers))
        with pytest.warns(RuntimeWarning), pytest.raises(IntegrityError, match="damaged record number 2"):
            list(loader(data["train"], order="stored", workers=workers, damaged=Skip(1)))
    for make in (loader, lambda split, **options: torch_eval_loader(split, batch_size=12, image_size=16, **options)):
        skips = Skip(9), Skip(9)
        with pytest.warns(RuntimeWarning, match="left out"):
            found, expected = (
                all_bytes(make(data["validation"], workers=workers, damaged=skip))
                for workers, skip in zip((2, PROCESS), skips, strict=True)
            )
        assert found == expected
        assert [error.place for error in skips[0].found] == [error.place for error in skips[1].found]
        assert len(skips[0].found) == 2
