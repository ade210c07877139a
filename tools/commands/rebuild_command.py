"""`shardfeed rebuild DIR`: restore indexes, columns and other files from a dataset's shards."""

import argparse
from operator import attrgetter

from shardfeed.converters.existing.rebuild import Rebuilt, rebuild
from shardfeed.errors import escape
from shardfeed.text import shell_quoted
from shardfeed.tools.arguments import command


def _as_json(done: Rebuilt) -> dict[str, object]:
    return {"files": dict(done.files), "lost": dict(done.lost), "written": done.written}


def _print(done: Rebuilt, args: argparse.Namespace) -> None:
    what = "restored, byte for byte" if done.written else "can be restored"
    for name, problem in done.files.items():
        print(f"{escape(name)}: {problem}: {what}")
    for name, problem in done.lost.items():
        remedy = "restore it from a copy, or use `shardfeed salvage DIR OUT`"
        print(f"{escape(name)}: {problem}: not in the shards; {remedy}")
    if not done.files and not done.lost:
        print(f"{escape(args.path)}: indexes, label columns and TFDS files are intact; nothing to do")
    elif done.files and not done.written:
        print(f"\nnothing was written; next: shardfeed rebuild {shell_quoted(args.path)}")


add_arguments, run = command(rebuild, _print, to_json=_as_json, damage=attrgetter("lost"))
