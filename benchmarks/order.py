"""Cost of the orders: `python benchmarks/order.py [PHOTOS]`, on the same photos as reading.py.

1. `train_batches` (224 pixels, flip) in the stream, global and block-wise order: whole epochs, alternating.
2. Resuming in the middle of an epoch: time to the first batch, from a new pipeline, against starting at step 0.
3. The order alone, without data: time for a batch of 256 and memory, for 10^5 and 10^9 samples.
4. A dataset of 10,000 shards: time to open it and to the first batch in the global order.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
RESULTS = Path(__file__).parent / "results"
BATCH, SIZE = 64, 224
ORDERS = ("stream", "global", "blocks")


def throughput(split: Any, rounds: int) -> dict[str, dict[str, float]]:
    """Median CPU microseconds per image and images/s of each order, and both relative to stream, round by round."""
    from shardfeed.pipelines import train_batches

    built = {order: train_batches(split, batch_size=BATCH, image_size=SIZE, order=order) for order in ORDERS}
    found: dict[str, list[tuple[float, float]]] = {order: [] for order in ORDERS}
    for number in range(rounds + 1):
        for order in ORDERS if number % 2 else reversed(ORDERS):
            wall, cpu, images = time.perf_counter(), time.process_time(), 0
            for _, labels in built[order]:
                images += int(labels.shape[0])
            if number:
                found[order].append(((time.process_time() - cpu) / images * 1e6, images / (time.perf_counter() - wall)))
    return {
        order: {
            "cpu_us_per_image": statistics.median(cpu for cpu, _ in runs),
            "images_per_second": statistics.median(rate for _, rate in runs),
            "rate_by_stream": statistics.median(
                rate / base for (_, rate), (_, base) in zip(runs, found["stream"], strict=True)
            ),
            "cpu_by_stream": statistics.median(
                cpu / base for (cpu, _), (base, _) in zip(runs, found["stream"], strict=True)
            ),
        }
        for order, runs in found.items()
    }


def resuming(split: Any, rounds: int) -> dict[str, dict[str, float]]:
    """Median seconds to the first batch at step 0 and at the middle of the epoch."""
    from shardfeed.pipelines import Blocks, Stream, train_batches

    orders: dict[str, Any] = {"stream": Stream(buffer=512), "global": "global", "blocks": Blocks(buffer=512)}
    found: dict[str, dict[str, list[float]]] = {order: {"start": [], "middle": []} for order in ORDERS}
    for number in range(rounds + 1):
        for order in ORDERS:
            for name, step in (("start", 0), ("middle", len(split) // BATCH // 2)):
                begun = time.perf_counter()
                options: dict[str, Any] = {"order": orders[order], "start_step": step}
                next(iter(train_batches(split, batch_size=BATCH, image_size=SIZE, **options)))
                if number:
                    found[order][name].append(time.perf_counter() - begun)
    return {order: {name: statistics.median(runs) for name, runs in times.items()} for order, times in found.items()}


def arithmetic() -> list[dict[str, Any]]:
    """Microseconds for a batch of 256 positions, and the most memory it takes, by kind of order and samples."""
    from shardfeed.pipelines.orders.arithmetic import apportion
    from shardfeed.pipelines.orders.order import BlockOrder, GlobalOrder
    from shardfeed.pipelines.orders.strata import StratifiedOrder

    rows = []
    for samples in (10**5, 10**9):
        common = ("0" * 32, samples, 256, samples // 256 * 256, 1)
        thousand = (samples // 1000,) * 1000
        orders = {
            "global": GlobalOrder(*common),
            "blocks": BlockOrder(*common, 16, 16_384),
            "1,000 classes balanced": StratifiedOrder(*common, thousand, apportion(common[3], [1] * 1000)),
        }
        for name, order in orders.items():
            steps = np.linspace(0, 3 * order.steps_per_epoch, 200, dtype=int).tolist()
            begun = time.perf_counter()
            for step in steps:
                order.batch(step)
            seconds = (time.perf_counter() - begun) / len(steps)
            tracemalloc.start()
            for step in steps[:20]:
                order.batch(step)
            rows.append(
                {
                    "order": name,
                    "samples": samples,
                    "us_per_batch": seconds * 1e6,
                    "peak_bytes": tracemalloc.get_traced_memory()[1],
                }
            )
            tracemalloc.stop()
    return rows


def small_records(directory: Path, shards: int, records: int) -> Any:
    """The train split of a new dataset of records that hold nothing but their number."""
    import shardfeed
    from shardfeed.formats.example import ExampleEncoder
    from shardfeed.formats.format import ShardInfo
    from shardfeed.formats.tfrecord import Index, frame_parts
    from shardfeed.manifest import FileInfo, Manifest, SplitInfo
    from shardfeed.schema import Feature, Schema
    from shardfeed.shard_table import ShardTable
    from shardfeed.storage.checksum import crc32c

    directory.mkdir()
    schema = Schema({"image/source_id": Feature("bytes")}, {})
    infos = []
    for shard in range(shards):
        values = [{"image/source_id": b"%d" % (records * shard + row)} for row in range(records)]
        framed = [b"".join(frame_parts(ExampleEncoder(schema.features).parts(value))) for value in values]
        data, index = b"".join(framed), Index.from_sizes([len(record) for record in framed]).to_bytes()
        stem = directory / f"train-{shard:05d}-of-{shards:05d}"
        stem.with_suffix(".tfrecord").write_bytes(data)
        (stem.parent / "index").mkdir(exist_ok=True)
        (stem.parent / "index" / stem.with_suffix(".tfindex").name).write_bytes(index)
        infos.append(ShardInfo(records, FileInfo(len(data), crc32c(data)), FileInfo(len(index), crc32c(index))))
    manifest = Manifest("many", schema, {"train": SplitInfo("train", ShardTable.of(infos))}, {}, "0" * 32, {}, {}, {})
    (directory / "manifest.json").write_bytes(manifest.to_bytes())
    return shardfeed.open(directory)["train"]


def many_shards(directory: Path, shards: int, rounds: int) -> dict[str, float]:
    """Median seconds to open a dataset of so many small shards, and to its first batch of records."""
    import shardfeed
    from shardfeed.pipelines import order_samples

    small_records(directory, shards, 10)
    opened, first = [], []
    for _ in range(rounds):
        begun = time.perf_counter()
        train = shardfeed.open(directory)["train"]
        opened.append(time.perf_counter() - begun)
        samples, order = order_samples(train, batch_size=256, order="global")
        samples.payloads(order.batch(0))  # type: ignore[attr-defined]  # a global order
        first.append(time.perf_counter() - begun)
    return {"open": statistics.median(opened), "first_batch": statistics.median(first)}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what the orders of training cost.")
    parser.add_argument("photos", nargs="?", default=RESULTS / "photos", help="folder made by photos.py")
    parser.add_argument("--rounds", type=int, default=7, help="counted rounds after one warm-up (7)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for order.json and order.md")
    args = parser.parse_args()
    import shardfeed
    from shardfeed.converters import ImageFolder, ImageOptions, convert

    with tempfile.TemporaryDirectory() as scratch:
        convert(ImageFolder(args.photos), f"{scratch}/photos", image=ImageOptions(check="header"), shards=8)
        split = shardfeed.open(f"{scratch}/photos")["train"]
        result = {
            "photos": len(split),
            "throughput": throughput(split, args.rounds),
            "resuming": resuming(split, args.rounds),
            "arithmetic": arithmetic(),
            "ten_thousand_shards": many_shards(Path(scratch) / "many", 10_000, args.rounds),
        }
    lines = ["| order | CPU µs/image | images/s | rate by stream's | first batch at 0 | in mid-epoch |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for order, row in result["throughput"].items():
        times = result["resuming"][order]
        lines.append(
            f"| {order} | {row['cpu_us_per_image']:,.0f} | {row['images_per_second']:,.0f} "
            f"| {row['rate_by_stream']:.3f} | {times['start']:.2f} s | {times['middle']:.2f} s |"
        )
    lines += ["", "| order alone | samples | µs for 256 | peak kB |", "|---|---:|---:|---:|"]
    for row in result["arithmetic"]:
        lines.append(
            f"| {row['order']} | {row['samples']:.0e} | {row['us_per_batch']:,.0f} | {row['peak_bytes'] / 1e3:,.0f} |"
        )
    shards = result["ten_thousand_shards"]
    lines += ["", f"10,000 shards: opened in {shards['open']:.2f} s, first batch after {shards['first_batch']:.2f} s"]
    args.results.mkdir(parents=True, exist_ok=True)
    (args.results / "order.json").write_text(json.dumps(result, indent=1) + "\n")
    (args.results / "order.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
