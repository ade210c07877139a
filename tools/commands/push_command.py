"""`shardfeed push DIR URL`: copy a dataset to a bucket or to the Hub."""

import argparse

from shardfeed.converters.commit.push import Pushed, push
from shardfeed.converters.commit.upload import read_back_note
from shardfeed.errors import escape
from shardfeed.text import shell_quoted, size_text
from shardfeed.tools.arguments import command
from shardfeed.tools.signal_watch import watched


def _print(pushed: Pushed, args: argparse.Namespace) -> None:
    there = pushed.files - pushed.sent
    print(f"{escape(args.url)}: {pushed.files:,} files, {size_text(pushed.size)}; {there:,} were there already")
    if pushed.read_back:
        print(f"note: {read_back_note(pushed.read_back)}")
    print(f"\nnext: shardfeed inspect {shell_quoted(args.url)}")


add_arguments, run = command(push, _print, within=watched)
