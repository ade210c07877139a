"""Each format's own library, reading the shards that we wrote and a copy of them that it compressed itself.

In a process of its own: `PYTHON -m shardfeed.tools.bench.formats.libraries JSON`, where PYTHON has the library. One
thread, records as bytes in Python, nothing decoded, pages in memory.
"""

import gzip
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from shardfeed.formats.native import NATIVE
from shardfeed.readers.dataset import open as open_dataset
from shardfeed.tools.bench.formats.places import fetch_pages, files_below
from shardfeed.tools.bench.formats.reading import BATCH, run_fresh, timed
from shardfeed.tools.bench.formats.sample import SPLIT

_SHARD_BYTES = 64 << 20  # of what MDSWriter writes, which is its default


@dataclass(frozen=True)
class Library:
    """`read`: all records of some files, one after the other; how many, batch by batch. `mixed`: at random places.

    `compress`: writes the records of files anew, in a directory that is there. `codec`: by what.
    """

    format: str
    name: str
    module: str
    codec: str
    read: Callable[[Sequence[str]], Iterator[int]]
    compress: Callable[[Sequence[str], str], None]
    mixed: Callable[[Sequence[str]], Iterator[int]] | None = None

    @property
    def installed(self) -> bool:
        """Whether this interpreter has it."""
        return find_spec(self.module) is not None


def _tensorflow(paths: Sequence[str]) -> Iterator[int]:
    import tensorflow as tf

    kind = "GZIP" if paths[0].endswith(".gz") else ""
    for batch in tf.data.TFRecordDataset(list(paths), kind, 1 << 20).batch(BATCH).prefetch(1).as_numpy_iterator():
        yield len(batch)


def _tensorflow_gzip(paths: Sequence[str], out: str) -> None:
    import tensorflow as tf

    for path in paths:
        with tf.io.TFRecordWriter(os.path.join(out, f"{os.path.basename(path)}.gz"), "GZIP") as writer:
            for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
                writer.write(record)


def _webdataset(paths: Sequence[str]) -> Iterator[int]:
    import webdataset

    for _ in webdataset.WebDataset(list(paths), shardshuffle=False, empty_check=False):
        yield 1


def _webdataset_gzip(paths: Sequence[str], out: str) -> None:
    for path in paths:  # what its TarWriter does with compress=True, at the usual level
        target = os.path.join(out, f"{os.path.basename(path)}.gz")
        with open(path, "rb") as file, gzip.open(target, "wb", compresslevel=6) as zipped:
            zipped.write(file.read())


def _pyarrow(paths: Sequence[str]) -> Iterator[int]:
    import pyarrow.parquet as pq

    for path in paths:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH, use_threads=False):
                yield len(batch.to_pylist())


def _pyarrow_zstd(paths: Sequence[str], out: str) -> None:
    import pyarrow.parquet as pq

    for path in paths:
        with pq.ParquetFile(path) as file:
            target = os.path.join(out, os.path.basename(path))
            with pq.ParquetWriter(target, file.schema_arrow, compression="zstd", use_dictionary=False) as writer:
                for group in range(file.num_row_groups):
                    writer.write_table(file.read_row_group(group, use_threads=False))


def _array_record(paths: Sequence[str]) -> Iterator[int]:
    return _array_record_at(paths, lambda count: np.arange(count))


def _array_record_mixed(paths: Sequence[str]) -> Iterator[int]:
    return _array_record_at(paths, np.random.default_rng(0).permutation)


def _array_record_at(paths: Sequence[str], order: Callable[[int], np.ndarray]) -> Iterator[int]:
    from array_record.python.array_record_data_source import ArrayRecordDataSource

    with ArrayRecordDataSource(list(paths)) as records:
        for places in _batches(order(len(records))):
            yield len(records.__getitems__(places.tolist()))


def _array_record_zstd(paths: Sequence[str], out: str) -> None:
    from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

    for path in paths:
        reader = ArrayRecordReader(path)
        writer = ArrayRecordWriter(os.path.join(out, os.path.basename(path)), "group_size:1,zstd")
        for record in reader.read_all():
            writer.write(record)
        writer.close()
        reader.close()


def _streaming(paths: Sequence[str]) -> Iterator[int]:
    return _streaming_at(paths, np.arange)


def _streaming_mixed(paths: Sequence[str]) -> Iterator[int]:
    return _streaming_at(paths, np.random.default_rng(0).permutation)


def _streaming_at(paths: Sequence[str], order: Callable[[int], np.ndarray]) -> Iterator[int]:
    from streaming import LocalDataset  # pyright: ignore[reportMissingImports]  # in an environment of its own

    records = LocalDataset(local=os.path.dirname(paths[0]))
    for place in order(len(records)).tolist():
        records[place]
        yield 1


def _streaming_zstd(paths: Sequence[str], out: str) -> None:
    """Its own reader takes shards that it unpacked on the disk, so what is timed includes that the first time."""
    from streaming import LocalDataset, MDSWriter  # pyright: ignore[reportMissingImports]

    records = LocalDataset(local=os.path.dirname(paths[0]))
    reader = records.shards[0]
    columns = dict(zip(reader.column_names, reader.column_encodings, strict=True))
    with MDSWriter(out=out, columns=columns, compression="zstd", size_limit=_SHARD_BYTES) as writer:
        for place in range(len(records)):
            writer.write(records[place])


def _batches(places: np.ndarray) -> Iterator[np.ndarray]:
    return (places[start : start + BATCH] for start in range(0, len(places), BATCH))


LIBRARIES = (
    Library(NATIVE.name, "TensorFlow", "tensorflow", "GZIP", _tensorflow, _tensorflow_gzip),
    Library("webdataset", "webdataset", "webdataset", "gzip", _webdataset, _webdataset_gzip),
    Library("parquet", "pyarrow", "pyarrow", "zstd", _pyarrow, _pyarrow_zstd),
    Library("mds", "streaming", "streaming", "zstd", _streaming, _streaming_zstd, _streaming_mixed),
    Library(
        "arrayrecord",
        "array_record",
        "array_record",
        "zstd",
        _array_record,
        _array_record_zstd,
        _array_record_mixed,
    ),
)


def read_by_library(
    library: Library, directory: str, out: str, rounds: int, seconds: float, python: str = sys.executable
) -> dict[str, Any]:
    """What a new process of `python` found: the library's reading of a dataset, and of a copy that it makes in `out`.

    `plain`, `compressed`: for each of "sequential" and, where it reads at random, "random" a list of {"wall_us",
    "cpu_us"} of an image, one for each round; "bytes" of the files. Raises IntegrityError with what it said when it
    fails.
    """
    asked = {"format": library.format, "directory": directory, "out": out, "rounds": rounds, "seconds": seconds}
    return run_fresh([python, "-m", "shardfeed.tools.bench.formats.libraries", json.dumps(asked)], directory)


def _run(asked: dict[str, Any]) -> dict[str, Any]:
    library = next(each for each in LIBRARIES if each.format == asked["format"])
    split = open_dataset(asked["directory"])[SPLIT]
    paths = [piece.path for piece in split.shard_slices()]
    os.makedirs(asked["out"])
    library.compress(paths, asked["out"])
    packed = [path for path in files_below(asked["out"]) if not path.endswith(".json")]
    found: dict[str, Any] = {}
    for name, files in (("plain", paths), ("compressed", packed)):
        assert sum(library.read(files)) == len(split), f"{library.name} read another number of {name} records"
        fetch_pages(files)
        found[name] = {"bytes": sum(map(os.path.getsize, files)), "sequential": [], "random": []}
    for _ in range(asked["rounds"]):
        for name, files in (("plain", paths), ("compressed", packed)):
            of_name = found[name]
            of_name["sequential"].append(timed(lambda files=files: sum(library.read(files)), asked["seconds"]))
            if library.mixed:
                mixed = library.mixed
                of_name["random"].append(timed(lambda files=files: sum(mixed(files)), asked["seconds"]))
    return found


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    print(json.dumps(_run(json.loads(sys.argv[1]))))
