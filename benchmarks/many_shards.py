"""Measure a large dataset without its images: `python benchmarks/many_shards.py [--shards 40000 --records 2500]`.

A dataset of so many shards, each a file of its own with its index, whose records hold next to nothing. In a new process
for each round: opening it, the first batch of records in the global order, memory once every index was read, later
batches, and the order alone. In another one, which receives the split pickled as a worker does: the first batch.
Seconds are CPU time, so that waiting for a disk or for other programs is in no figure.
"""

import argparse
import json
import pickle
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BATCH = 256


def copied_shards(directory: Path, shards: int, records: int) -> None:
    """Make a dataset of one shard of small records, copied under the names of all shards."""
    from order import small_records

    from shardfeed.manifest import Manifest, SplitInfo, read_manifest
    from shardfeed.shard_table import ShardTable

    small_records(directory / "one", 1, records)
    one = read_manifest(str(directory / "one"))
    split = one.splits["train"]
    many = SplitInfo("train", ShardTable.of([*split.shards] * shards))
    for name_of in (SplitInfo.shard_file, SplitInfo.index_file):
        for shard in range(shards):
            target = directory / "many" / name_of(many, shard)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(directory / "one" / name_of(split, 0), target)
    manifest = Manifest("many", one.schema, {"train": many}, {}, "0" * 32, {}, {}, {})
    (directory / "many" / "manifest.json").write_bytes(manifest.to_bytes())


def resident_mb() -> float:
    """MB that this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def peak_mb() -> float:
    """The most MB that this program had in memory; `ru_maxrss` would include the process that has started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


def measure(directory: str) -> dict[str, float]:
    """Figures of one process."""
    import numpy as np

    import shardfeed
    from shardfeed.pipelines import order_samples

    before, begun = resident_mb(), time.process_time()
    train = shardfeed.open(directory)["train"]
    opened = resident_mb()
    found = {"open_s": time.process_time() - begun, "open_mb": opened - before}
    found["open_peak_mb"] = peak_mb() - before
    samples: Any
    order: Any
    samples, order = order_samples(train, batch_size=BATCH, order="global")
    samples.payloads(order.batch(0))
    found["first_batch_s"] = time.process_time() - begun
    sent = pickle.dumps(train)
    Path(directory, "..", "sent").write_bytes(sent)
    found["pickled_kb"] = len(sent) / 1e3

    steps = np.linspace(1, order.steps_per_epoch - 1, 50, dtype=int).tolist()
    begun = time.process_time()
    batches = [order.batch(step) for step in steps]
    found["order_ms_per_batch"] = (time.process_time() - begun) / len(steps) * 1e3

    begun = time.process_time()
    for shard in range(len(train.shards.info.shards)):
        train.shards.view(shard)
    found |= {"indexes_s": time.process_time() - begun, "indexes_mb": resident_mb() - opened}
    begun = time.process_time()
    for indices in batches:
        samples.payloads(indices)
    found["records_ms_per_batch"] = (time.process_time() - begun) / len(steps) * 1e3
    return found


def measure_worker(directory: str) -> dict[str, float]:
    """Figures of a process that receives the split."""
    import shardfeed
    from shardfeed.pipelines import order_samples

    assert shardfeed.open  # imported before the clock starts
    before, begun = resident_mb(), time.process_time()
    samples: Any
    order: Any
    samples, order = order_samples(
        pickle.loads(Path(directory, "..", "sent").read_bytes()), batch_size=BATCH, order="global"
    )
    samples.payloads(order.batch(0))
    return {
        "worker_first_batch_s": time.process_time() - begun,
        "worker_mb": resident_mb() - before,
        "worker_peak_mb": peak_mb() - before,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what a dataset of many shards costs.")
    parser.add_argument("--shards", type=int, default=40_000)
    parser.add_argument("--records", type=int, default=2_500, help="of each shard (2500)")
    parser.add_argument("--rounds", type=int, default=5, help="each a new process (5)")
    parser.add_argument("--measure", metavar="DIR", help=argparse.SUPPRESS)
    parser.add_argument("--worker", metavar="DIR", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure or args.worker:
        print(json.dumps(measure(args.measure) if args.measure else measure_worker(args.worker)))
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        copied_shards(Path(scratch), args.shards, args.records)
        manifest = (Path(scratch) / "many" / "manifest.json").stat().st_size

        def figures(which: str) -> dict[str, float]:
            command = [sys.executable, __file__, which, f"{scratch}/many"]
            return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

        rounds = [figures("--measure") | figures("--worker") for _ in range(args.rounds)]
    print(f"{args.shards:,} shards, {args.shards * args.records:,} records; manifest {manifest / 1e6:.1f} MB")
    for key in rounds[0]:
        values = sorted(found[key] for found in rounds)
        print(f"{key:>22} {statistics.median(values):10.3f}  ({values[0]:.3f} to {values[-1]:.3f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
