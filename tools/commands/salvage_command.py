"""`shardfeed salvage DIR OUT`: a new dataset of every undamaged record, and a report of what was lost."""

import argparse
import sys
from collections.abc import Iterator

from shardfeed.converters.existing.salvage import Salvaged, SalvagedShard, salvage
from shardfeed.errors import escape
from shardfeed.naming import SALVAGED
from shardfeed.text import number, shell_quoted, size_text
from shardfeed.tools.arguments import command
from shardfeed.tools.colour import coloured

_SHARDS_SHOWN = 20


def _print(result: Salvaged, args: argparse.Namespace) -> None:
    out = escape(args.out)
    for shard in result.shards[:_SHARDS_SHOWN]:
        print("\n".join(_shard_lines(shard)))
    if len(result.shards) > _SHARDS_SHOWN:
        print(f"and {len(result.shards) - _SHARDS_SHOWN} more shards")
    for note in result.notes:
        print(coloured("note:", "note", sys.stdout), escape(note))
    rate = f"{result.recovered / result.seconds:,.0f} records/s, {size_text(result.size / result.seconds)}/s"
    print(f"{out}: {result.recovered:,} records recovered ({result.seconds:.1f} s, {rate})")
    if result.lost is None:
        print("LOST: the number of records is unknown")
    elif result.lost:
        print(f"LOST {result.lost:,} of {result.expected:,} records; {out}/{SALVAGED} counts them by shard")
    else:
        print(f"lost 0 of {result.expected:,} records")
    print(f"\nnext: shardfeed verify {shell_quoted(args.out)}")


def _shard_lines(shard: SalvagedShard) -> Iterator[str]:
    of = f" of {shard.expected:,}" if shard.expected is not None else ""
    yield f"{shard.name}: {shard.problem}, {shard.recovered:,}{of} records recovered"
    if shard.lost or (shard.lost is None and shard.lost_bytes):
        records = "an unknown number of records" if shard.lost is None else number(shard.lost, "record")
        yield f"  lost: {records}, {number(shard.lost_bytes, 'byte')}"
    if shard.expected is not None and shard.recovered > shard.expected:
        yield f"  {shard.recovered - shard.expected:,} more than were written: some are from another dataset"
    if shard.doubled:
        yield f"  left out as duplicates: {number(shard.doubled, 'record')}"
    if shard.refused:
        yield f"  left out, as they do not match the schema: {number(shard.refused, 'record')}"
        yield from (f"    {escape(reason)}" for reason in shard.reasons)


add_arguments, run = command(salvage, _print, to_json=Salvaged.to_json)
