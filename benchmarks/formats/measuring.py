"""Everything benchmarks/formats.py measures, as one JSON value."""

import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from advice import Packed, Read, advise
from one_reading import (
    BATCH,
    CACHE,
    DISK,
    MODES,
    SPLIT,
    decode_image,
    files_below,
    image_of,
    read_fresh,
    run_fresh,
    timed,
)
from sample import Part

from shardfeed.converters.conversion import convert
from shardfeed.converters.existing.dataset_source import DatasetSource
from shardfeed.errors import IntegrityError, ShardfeedError, UsageError, escape
from shardfeed.formats.example import values_of
from shardfeed.formats.format import ShardFormat
from shardfeed.formats.registry import FORMATS, NATIVE
from shardfeed.free_space import is_in_memory, room_in
from shardfeed.processes import keep_heap
from shardfeed.readers.dataset import open as open_dataset
from shardfeed.readers.split import Split
from shardfeed.schema import ENCODED, Schema, Value
from shardfeed.tools.bench.stages import check_images

_PYTHON = (sys.executable, "-P")  # -P: modules beside the script are not to be taken for others of their names
_SCRIPT = str(Path(__file__).with_name("library_process.py"))
_CHECKED = 256  # images that are decoded and checked, to see what that takes
_MORE = 2  # copies of the sample that are there for a while, beside one in each format

Progress = Callable[[str], object]
Pythons = Mapping[str, Sequence[str]]  # format -> the command that runs a script where its library is


@dataclass(frozen=True)
class Library:
    """Library that reads a format. `name`: its usual name. `module`: the module to import. `codec`: its compression."""

    format: str
    name: str
    module: str
    codec: str

    @property
    def installed(self) -> bool:
        """Whether this interpreter has it."""
        return find_spec(self.module) is not None


LIBRARIES = (
    Library(NATIVE.name, "TensorFlow", "tensorflow", "GZIP"),
    Library("webdataset", "webdataset", "webdataset", "gzip"),
    Library("parquet", "pyarrow", "pyarrow", "zstd"),
    Library("mds", "streaming", "streaming", "zstd"),
    Library("arrayrecord", "array_record", "array_record", "zstd"),
)


def measure(
    part: Part,
    directory: str,
    *,
    rounds: int,
    seconds: float,
    progress: Progress,
    pythons: Pythons | None = None,
) -> dict[str, Any]:
    """Store `part` in each format in `directory`, which is empty, and read it in each mode; docs/formats.md explains.

    `seconds`: of each reading, about. `progress` is told what comes next. `pythons`: where
    libraries are that this interpreter has not.
    Raises UsageError where a sample cannot be stored, StorageError where there is no room.
    """
    keep_heap()
    progress("images")
    first = os.path.join(directory, NATIVE.name)
    convert(part, first, max_bad="99%")
    split = open_dataset(first)[SPLIT]
    check_images(split)
    room_in(directory).check(split.record_bytes * (len(FORMATS) + _MORE), "give fewer images")
    skipped = _make_others(first, directory, progress)
    names = [name for name in FORMATS if name not in skipped]
    values, image_bytes = _values(split)
    report: dict[str, Any] = {
        "images": len(split),
        "of": len(part.source),
        "rejected": len(part) - len(split),
        "image_bytes": image_bytes,
        "kinds": dict(split.formats),
        "where": directory,
        "in_memory": is_in_memory(directory),
        "rounds": rounds,
        "batch": BATCH,
        "skipped": skipped,
    }
    found: dict[str, Any] = {name: _sizes(os.path.join(directory, name), image_bytes) for name in names}
    costs: dict[str, dict[str, list[Any]]] = {name: {"write": [], **{mode: [] for mode in MODES}} for name in names}
    images: list[dict[str, float]] = []
    for number in range(rounds):
        images.append(_decoding(split, seconds))
        # There and back again: who comes first is not always the same.
        for name in names if number % 2 else names[::-1]:
            progress(name)
            shard = FORMATS[name]
            costs[name]["write"].append(write_once(shard, split.schema, values, os.path.join(directory, "written")))
        for mode in MODES:
            for name in names if number % 2 else names[::-1]:
                progress(f"{name}, {mode}")
                costs[name][mode].append(read_fresh(os.path.join(directory, name), mode, seconds, mode == CACHE))
    del values
    for name in names:
        found[name] |= _summary(costs[name])
    report |= {"formats": found, "decode": spread(images)}
    report["dropped"] = _dropped(costs)
    report["libraries"], silent = _libraries(names, directory, rounds, seconds, progress, pythons or {})
    report["libraries_skipped"] = silent
    report["advice"] = advise(*_figures(report), dropped=report["dropped"])
    return report


def spread(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    """The medians of rounds of {"wall_us", "cpu_us"}, images/s, and the noise: half of the spread, in parts of 1."""
    wall, cpu = ([one[key] for one in rounds] for key in ("wall_us", "cpu_us"))
    middle = statistics.median(wall)
    return {
        "images_per_s": 1e6 / middle if middle else 0.0,
        "wall_us": middle,
        "cpu_us": statistics.median(cpu),
        "noise": (max(wall) - min(wall)) / 2 / middle if middle else 0.0,
    }


def usual_noise(report: dict[str, Any]) -> float:
    """Half of the spread of a rate over the rounds, in parts of it: the median of all readings."""
    modes = (of_mode for one in report["formats"].values() for of_mode in one["modes"].values())
    return statistics.median(of_mode[way]["noise"] for of_mode in modes for way in ("sequential", "random"))


def _make_others(first: str, directory: str, progress: Progress) -> dict[str, str]:
    """The same records in all other formats; format -> why there is none."""
    skipped = {}
    for name in FORMATS:
        if name == NATIVE.name:
            continue
        progress(name)
        try:
            convert(DatasetSource(first), os.path.join(directory, name), to=name)
        except (UsageError, ImportError) as error:  # it cannot hold them, or its package is not installed
            skipped[name] = str(error) if isinstance(error, ShardfeedError) else escape(error)
    return skipped


def _values(split: Split) -> tuple[list[dict[str, Value]], int]:
    """All records as they are written, and the bytes of their images."""
    values = [values_of(payload, split.schema.features) for payload in _payloads(split, len(split))]
    return values, sum(len(one[ENCODED]) for one in values)  # type: ignore[arg-type]  # bytes


def _payloads(split: Split, count: int) -> list[bytes]:
    """So many records from all over a split."""
    return split.shards.payloads(np.unique(np.linspace(0, len(split) - 1, min(count, len(split))).astype(np.int64)))


def _images(split: Split) -> list[tuple[bytes, bytes]]:
    """Some images, with what they say their formats are."""
    return [image_of(payload) for payload in _payloads(split, _CHECKED)]


def _decoding(split: Split, seconds: float) -> dict[str, float]:
    """Time to decode an image from memory."""
    images = _images(split)
    decode_image(*images[0])  # imports

    def all_of_them() -> int:
        for image in images:
            decode_image(*image)
        return len(images)

    return timed(all_of_them, seconds)


def _sizes(directory: str, image_bytes: int) -> dict[str, Any]:
    size = sum(map(os.path.getsize, files_below(directory)))
    return {"bytes": size, "overhead_bytes": size - image_bytes}


def _summary(costs: dict[str, list[Any]]) -> dict[str, Any]:
    """Summarise the costs of one format over its rounds."""
    modes = {}
    for mode in MODES:
        rounds = costs[mode]
        modes[mode] = {way: spread([one[way] for one in rounds]) for way in ("sequential", "random")}
        for key in ("first_batch_s", "peak_bytes", "growth_bytes"):
            modes[mode][key] = statistics.median(one[key] for one in rounds)
    decoded = spread([one["decoded"] for one in costs[CACHE]])
    return {"write": spread(costs["write"]), "modes": modes, "decoded": decoded}


def _dropped(costs: dict[str, dict[str, list[Any]]]) -> bool | None:
    """Whether all that was to be read from the disk was; None where the kernel does not say."""
    said = [one["dropped"] for of_format in costs.values() for one in of_format[DISK]]
    return None if None in said else all(said)


def _libraries(
    names: Sequence[str],
    directory: str,
    rounds: int,
    seconds: float,
    progress: Progress,
    pythons: Pythons,
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Measure the libraries; return their figures, and a mapping of library to the reason why it was not measured."""
    found, silent = [], {}
    for library in LIBRARIES:
        if library.format not in names:
            continue
        if not library.installed and library.format not in pythons:
            silent[library.name] = "not installed"
            continue
        progress(library.name)
        try:
            found.append(_of_library(library, directory, rounds, seconds, pythons))
        except IntegrityError as error:
            silent[library.name] = error.problem
    return found, silent


def _of_library(library: Library, directory: str, rounds: int, seconds: float, pythons: Pythons) -> dict[str, Any]:
    out = os.path.join(directory, f"{library.format}-{library.codec}".lower())
    place = os.path.join(directory, library.format)
    python = {"python": pythons[library.format]} if library.format in pythons else {}
    try:
        took = read_by_library(library, place, out, rounds, seconds, **python)
    finally:
        shutil.rmtree(out, ignore_errors=True)
    one: dict[str, Any] = {"format": library.format, "library": library.name, "codec": library.codec}
    for kind in ("plain", "compressed"):
        of_kind = took[kind]
        one[kind] = {"bytes": of_kind["bytes"], "sequential": spread(of_kind["sequential"])}
        if of_kind["random"]:
            one[kind]["random"] = spread(of_kind["random"])
    return one


def _figures(report: dict[str, Any]) -> tuple[list[Read], float, list[Packed], int]:
    """Figures for `advise`: reads of each format, decode time, compressed copies, bytes of all images."""
    reads = [
        Read(
            name,
            {mode: of_mode["random"]["cpu_us"] for mode, of_mode in one["modes"].items()},
            {mode: of_mode["random"]["wall_us"] for mode, of_mode in one["modes"].items()},
            one["modes"][DISK]["sequential"]["wall_us"],
            one["bytes"],
        )
        for name, one in report["formats"].items()
    ]
    packed = [
        Packed(
            one["format"],
            one["codec"],
            one["plain"]["bytes"] / report["images"],
            one["compressed"]["bytes"] / report["images"],
            one["compressed"]["sequential"]["cpu_us"] - one["plain"]["sequential"]["cpu_us"],
            "random" in one["compressed"],
        )
        for one in report["libraries"]
    ]
    return reads, report["decode"]["cpu_us"], packed, report["image_bytes"]


def read_by_library(
    library: Library, directory: str, out: str, rounds: int, seconds: float, python: Sequence[str] = _PYTHON
) -> dict[str, Any]:
    """Measure, in a new process, the library reading a dataset and a compressed copy that it writes to `out`.

    `python`: the command that runs a script where the library is installed.
    `plain`, `compressed`: for "sequential" and, if the library reads at random, "random" a list of {"wall_us",
    "cpu_us"} per image, one for each round; "bytes" of the files. Raises IntegrityError with the process's output
    when it fails.
    """
    split = open_dataset(directory)[SPLIT]
    asked = {
        "module": library.module,
        "paths": [piece.path for piece in split.shard_slices()],
        "records": len(split),
        "out": out,
        "rounds": rounds,
        "seconds": seconds,
    }
    return run_fresh([*python, _SCRIPT, json.dumps(asked)], directory)


def write_once(
    shard: ShardFormat, schema: Schema, records: Sequence[Mapping[str, Value]], directory: str
) -> dict[str, float]:
    """Write all records into one shard below `directory`, and remove it: microseconds of one, "wall_us", "cpu_us".

    Raises StorageError.
    """
    os.makedirs(directory)
    data, index = (os.path.join(directory, "shard" + suffix) for suffix in (shard.data_suffix, shard.index_suffix))
    wall, cpu = time.perf_counter(), time.process_time()
    with shard.sink(data, index, schema, len(records)) as sink:
        for values in records:
            sink.write(values)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    shutil.rmtree(directory)
    return {"wall_us": wall / len(records) * 1e6, "cpu_us": cpu / len(records) * 1e6}
