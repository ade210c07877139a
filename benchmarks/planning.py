"""Measure the planning of many samples without files: `python benchmarks/planning.py [--samples 1000000 10000000]`.

A source that computes its samples: a key of 31 bytes, a size and one of 1,000 labels each. In a new process for each
number and round: the plan, the digest and list of its inputs, and the numbers of the samples of each shard. CPU time,
and the peak of the memory in addition to what the process had before. `--split`: with exact shares of each class.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

_CLASSES = 1000


def source(count: int) -> Any:
    """`count` samples."""
    from shardfeed.converters import Sample
    from shardfeed.converters.sources.source import SourceFile
    from shardfeed.schema import LABEL, Feature, Schema

    class Computed:
        schema = Schema({LABEL: Feature("int64")}, {LABEL: tuple(f"c{i}" for i in range(_CLASSES))})

        def __len__(self) -> int:
            return count

        def __getitem__(self, i: int) -> Sample:
            if i >= count:
                raise IndexError(i)
            label = i % _CLASSES
            key = b"n%08d/n%08d_%06d.JPEG" % (label, label, i)
            return Sample(key, SourceFile(key, 50_000 + i % 30_000, 1), {LABEL: label})

    return Computed()


def measure(count: int, directory: str, *, split: bool) -> dict[str, float]:
    """Figures of one process."""
    from shardfeed.converters.planning.options import PlanOptions
    from shardfeed.converters.planning.plan import make_plan

    shares = {"train": 0.8, "validation": 0.1, "test": 0.1} if split else None
    samples = source(count)
    make_plan(source(1000), PlanOptions(split=shares))  # imports and first allocations
    before, begun = _peak_mb(), time.process_time()
    plan = make_plan(samples, PlanOptions(split=shares), False, directory)
    found = {"plan_s": time.process_time() - begun}
    digest = plan.inputs.digest
    size = sum(map(len, plan.inputs.blocks()))
    planned = sum(len(shard.samples) + len(plan.shard_digest(shard)) // 64 for shard in plan.shards)
    assert planned == count
    assert len(digest) == 32
    found |= {"all_s": time.process_time() - begun, "inputs_mb": size / 1e6}
    return found | {"more_mb": _peak_mb() - before, "peak_mb": _peak_mb()}


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure what planning takes.")
    parser.add_argument("--samples", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--rounds", type=int, default=3, help="each a new process (3)")
    parser.add_argument("--split", action="store_true", help="draw three splits, with exact shares of each class")
    parser.add_argument("--directory", default=tempfile.gettempdir(), help="of temporary files; not in memory")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.measure:
        print(json.dumps(measure(args.measure, args.directory, split=args.split)))
        return 0
    options = [f"--directory={os.path.abspath(args.directory)}", *(["--split"] if args.split else [])]
    print(f"{'samples':>12} {'plan: CPU us each':>18} {'inputs and shards too':>23} {'MB added':>17} {'peak MB':>8}")
    for count in args.samples:
        command = [sys.executable, __file__, *options, f"--measure={count}"]
        rounds = [
            json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            for _ in range(args.rounds)
        ]
        middle = {key: statistics.median(found[key] for found in rounds) for key in rounds[0]}
        plan, every = middle["plan_s"] / count * 1e6, middle["all_s"] / count * 1e6
        print(f"{count:12,} {plan:18.2f} {every:23.2f} {middle['more_mb']:17.1f} {middle['peak_mb']:8.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
