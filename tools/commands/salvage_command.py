"""`shardfeed salvage DIR OUT`: a new dataset of every undamaged record, and loudly what was lost."""

import argparse
import json
from collections.abc import Iterator, Sequence

from tqdm import tqdm

from shardfeed.converters.existing.salvage.report import LostRecord, Salvaged, SalvagedShard
from shardfeed.converters.existing.salvage.salvage import salvage
from shardfeed.errors import escape
from shardfeed.naming import SALVAGED
from shardfeed.text import listing, size_text

_SHOWN = 10  # lost records, and records left out, that are named for one shard
_SHARDS_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `salvage`."""
    parser.add_argument("dataset", help="damaged dataset directory; it is only read")
    parser.add_argument("out", help="dataset directory to create")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress bar, no summary")


def run(args: argparse.Namespace) -> int:
    """Salvage and say what was lost; exit code 0 when the new dataset is there, whatever it lacks."""
    with tqdm(unit="B", unit_scale=True, disable=True if args.quiet or args.json else None) as bar:
        result = salvage(args.dataset, args.out, progress=bar.update)
    if args.json:
        print(json.dumps(result.to_json()))
    elif not args.quiet:
        _print(result, args.out)
    return 0


def _print(result: Salvaged, out: str) -> None:
    for shard in result.shards[:_SHARDS_SHOWN]:
        print("\n".join(_shard_lines(shard)))
    if len(result.shards) > _SHARDS_SHOWN:
        print(f"and {len(result.shards) - _SHARDS_SHOWN} more shards")
    for note in result.notes:
        print(f"note: {escape(note)}")
    rate = f"{result.recovered / result.seconds:,.0f} records/s, {size_text(result.size / result.seconds)}/s"
    print(f"{escape(out)}: {result.recovered:,} records recovered ({result.seconds:.1f} s, {rate})")
    if result.lost is None:
        print("LOST: nothing tells how many records there were")
    elif result.lost:
        print(f"LOST {result.lost:,} of {result.expected:,} records; {escape(out)}/{SALVAGED} lists them")
    else:
        print(f"lost 0 of {result.expected:,} records")
    print(f"\nnext: shardfeed verify {escape(out)}")


def _shard_lines(shard: SalvagedShard) -> Iterator[str]:
    of = f" of {shard.expected:,}" if shard.expected is not None else ""
    yield f"{shard.name}: {shard.problem}, {shard.recovered:,}{of} records recovered"
    named = [lost for lost in shard.lost if lost.filename is not None]
    if len(named) < len(shard.lost):
        yield f"  lost, by number from 0: {_ranges([lost.number for lost in shard.lost if lost.filename is None])}"
    for lost in named[:_SHOWN]:
        yield f"  lost: {_record(lost)}"
    if len(named) > _SHOWN:
        yield f"  and {len(named) - _SHOWN} more"
    if not shard.lost and shard.expected is not None and shard.recovered < shard.expected:
        yield f"  lost: {shard.expected - shard.recovered:,}, nothing tells which"
    if shard.left_out:
        yield f"  whole records that were left out: {listing([escape(why) for why in shard.left_out], _SHOWN)}"


def _record(lost: LostRecord) -> str:
    names = f", image/filename {escape(lost.filename)}" if lost.filename is not None else ""
    return f"record {lost.number}{names}"


def _ranges(numbers: Sequence[int]) -> str:
    """`3, 7 to 12 and 5 more`: runs of ascending numbers."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return listing([" to ".join(map(str, run)) for run in runs], _SHOWN)
