"""`shardfeed pull URL DIR`: copy a dataset from a bucket or a web server to the local disk."""

import argparse

from shardfeed.converters.existing.pull import Pulled, pull
from shardfeed.errors import escape
from shardfeed.text import shell_quoted, size_text
from shardfeed.tools.arguments import command
from shardfeed.tools.signal_watch import watched


def _print(pulled: Pulled, args: argparse.Namespace) -> None:
    there = pulled.files - pulled.fetched
    print(f"{escape(args.directory)}: {pulled.files:,} files, {size_text(pulled.size)}; {there:,} were there already")
    print(f"\nnext: shardfeed inspect {shell_quoted(args.directory)}")


add_arguments, run = command(pull, _print, within=watched)
