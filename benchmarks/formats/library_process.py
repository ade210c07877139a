"""A format's own library at work, in a process of its own: `PYTHON library_process.py JSON`; see measuring.py.

Imports nothing of ours, as PYTHON may be of an environment that has nothing but the library. One thread; records become
bytes in Python, and nothing is decoded.
"""

import gzip
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

BATCH = 64  # records that are asked for at once, as of ours
_SHARD_BYTES = 64 << 20  # of what MDSWriter writes, which is its default


def _tensorflow(paths: Sequence[str]) -> Iterator[int]:
    import tensorflow as tf

    kind = "GZIP" if paths[0].endswith(".gz") else ""
    for batch in tf.data.TFRecordDataset(list(paths), kind, 1 << 20).batch(BATCH).prefetch(1).as_numpy_iterator():
        yield len(batch)


def _tensorflow_gzip(paths: Sequence[str], out: str) -> None:
    import tensorflow as tf

    for path in paths:
        with tf.io.TFRecordWriter(os.path.join(out, f"{os.path.basename(path)}.gz"), "GZIP") as writer:
            for record in tf.data.TFRecordDataset(path):
                writer.write(bytes(record.numpy()))


def _webdataset(paths: Sequence[str]) -> Iterator[int]:
    from webdataset import WebDataset  # pyright: ignore[reportAttributeAccessIssue]  # it says so in __init__ alone

    for _ in WebDataset(list(paths), shardshuffle=False, empty_check=False):
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
    from streaming.base.compression import decompress  # pyright: ignore[reportMissingImports]

    with tempfile.TemporaryDirectory() as unpacked:
        folder = os.path.dirname(paths[0])
        if paths[0].endswith(".zstd"):  # shards are unpacked whole, on the disk, before they are read
            shutil.copy(os.path.join(folder, "index.json"), unpacked)
            for path in paths:
                name = os.path.basename(path).removesuffix(".zstd")
                with open(path, "rb") as packed, open(os.path.join(unpacked, name), "wb") as out:
                    out.write(decompress("zstd", packed.read()))
            folder = unpacked
        records = LocalDataset(local=folder)
        for place in order(len(records)).tolist():
            records[place]
            yield 1


def _streaming_zstd(paths: Sequence[str], out: str) -> None:
    from streaming import LocalDataset, MDSWriter  # pyright: ignore[reportMissingImports]

    records = LocalDataset(local=os.path.dirname(paths[0]))
    first = records.shards[0]
    columns = dict(zip(first.column_names, first.column_encodings, strict=True))
    with MDSWriter(out=out, columns=columns, compression="zstd", size_limit=_SHARD_BYTES) as writer:
        for place in range(len(records)):
            writer.write(records[place])


def _batches(places: np.ndarray) -> Iterator[np.ndarray]:
    return (places[start : start + BATCH] for start in range(0, len(places), BATCH))


class _Work(NamedTuple):
    """`read`: all records of some files, one after the other; how many, batch by batch. `mixed`: at random places.

    `compress`: writes the records of files anew, into a directory that is there.
    """

    read: Callable[[Sequence[str]], Iterator[int]]
    compress: Callable[[Sequence[str], str], None]
    mixed: Callable[[Sequence[str]], Iterator[int]] | None = None


_WORK = {  # by module
    "tensorflow": _Work(_tensorflow, _tensorflow_gzip),
    "webdataset": _Work(_webdataset, _webdataset_gzip),
    "pyarrow": _Work(_pyarrow, _pyarrow_zstd),
    "streaming": _Work(_streaming, _streaming_zstd, _streaming_mixed),
    "array_record": _Work(_array_record, _array_record_zstd, _array_record_mixed),
}


def _timed(run: Callable[[], int], seconds: float) -> dict[str, float]:
    """As `one_reading.timed`."""
    images, wall, cpu = 0, time.perf_counter(), time.process_time()
    while True:
        images += run()
        passed = time.perf_counter() - wall
        if passed >= seconds:
            return {"wall_us": passed / images * 1e6, "cpu_us": (time.process_time() - cpu) / images * 1e6}


def _run(asked: dict[str, Any]) -> dict[str, Any]:
    work, count = _WORK[asked["module"]], asked["records"]
    os.makedirs(asked["out"])
    work.compress(asked["paths"], asked["out"])
    packed = sorted(os.path.join(asked["out"], name) for name in os.listdir(asked["out"]) if name != "index.json")
    kinds = {"plain": asked["paths"], "compressed": packed}
    found: dict[str, Any] = {}
    for name, paths in kinds.items():
        found[name] = {"bytes": sum(map(os.path.getsize, paths)), "sequential": [], "random": []}
        read = sum(work.read(paths))  # imports, and brings the pages into memory
        if read != count:
            raise ValueError(f"{read} records were read of {count}, {name}")
    for _ in range(asked["rounds"]):
        for name, paths in kinds.items():
            of_name = found[name]
            of_name["sequential"].append(_timed(lambda paths=paths: sum(work.read(paths)), asked["seconds"]))
            if mixed := work.mixed:
                of_name["random"].append(_timed(lambda paths=paths, mixed=mixed: sum(mixed(paths)), asked["seconds"]))
    return found


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    print(json.dumps(_run(json.loads(sys.argv[1]))))
