"""`shardfeed pull URL DIR`: copy a dataset from a bucket or a web server to the local disk."""

import argparse
import dataclasses
import json

from shardfeed.converters.existing.pull import pull
from shardfeed.errors import escape
from shardfeed.text import shell_quoted, size_text
from shardfeed.tools.arguments import add_output_arguments, output_bar


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `pull`."""
    parser.add_argument("url", help="URL of a dataset")
    parser.add_argument("out", help="dataset directory to create")
    add_output_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Pull, and print what was fetched; exit code 0."""
    with output_bar(args) as bar:
        pulled = pull(args.url, args.out, progress=bar.update)
    if args.json:
        print(json.dumps(dataclasses.asdict(pulled)))
    elif not args.quiet:
        there = pulled.files - pulled.fetched
        print(f"{escape(args.out)}: {pulled.files:,} files, {size_text(pulled.size)}; {there:,} were there already")
        print(f"\nnext: shardfeed inspect {shell_quoted(args.out)}")
    return 0
