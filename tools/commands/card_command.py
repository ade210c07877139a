"""`shardfeed card DIR`: write croissant.json and a dataset card."""

import argparse
import json
import os

from shardfeed.converters.existing.passport import CardOptions, card
from shardfeed.declared import typed
from shardfeed.errors import escape
from shardfeed.naming import CARD, CROISSANT
from shardfeed.text import listing
from shardfeed.tools.arguments import add_options, add_output_arguments, options_given, output_bar


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `card`."""
    parser.add_argument("dataset", help="dataset directory, into which the two files are written")
    add_options(parser.add_argument_group("what they say, besides what the manifest knows"), CardOptions)
    parser.add_argument("--replace", action="store_true", help="replace files of these names")
    add_output_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Write the files, and print what is missing in them; exit code 0."""
    about = CardOptions(**options_given(args, CardOptions))
    with output_bar(args) as bar:
        card(args.dataset, about, replace=args.replace, progress=bar.update)
    if args.json:
        print(json.dumps({"missing": about.missing()}))
    elif not args.quiet:
        for name in (CARD, CROISSANT):
            print(escape(os.path.join(args.dataset, name)))
        flags = {option.name: f"--{option.how[0].flag or option.name}" for option in typed(CardOptions)}
        if missing := [flags[name] for name in about.missing()]:
            print(f"note: Croissant also requires {listing(missing)}")
    return 0
