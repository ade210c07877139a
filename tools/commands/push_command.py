"""`shardfeed push DIR URL`: copy a dataset to a bucket."""

import argparse
import dataclasses
import json

from shardfeed.converters.commit.push import push
from shardfeed.converters.commit.upload import read_back_note
from shardfeed.errors import escape
from shardfeed.text import shell_quoted, size_text
from shardfeed.tools.arguments import add_output_arguments, output_bar


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `push`."""
    parser.add_argument("dataset", help="dataset directory")
    parser.add_argument("url", help="URL of the new dataset: s3://BUCKET/NAME or gs://BUCKET/NAME")
    add_output_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Push, and print what was sent; exit code 0."""
    with output_bar(args) as bar:
        pushed = push(args.dataset, args.url, progress=bar.update)
    if args.json:
        print(json.dumps(dataclasses.asdict(pushed)))
    elif not args.quiet:
        there = pushed.files - pushed.sent
        print(f"{escape(args.url)}: {pushed.files:,} files, {size_text(pushed.size)}; {there:,} were there already")
        if pushed.read_back:
            print(f"note: {read_back_note(pushed.read_back)}")
        print(f"\nnext: shardfeed inspect {shell_quoted(args.url)}")
    return 0
