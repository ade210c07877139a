"""`shardfeed report DIR -o report.html`: one page to look at a dataset in a browser."""

import argparse
import json

from shardfeed.errors import escape
from shardfeed.text import size_text
from shardfeed.tools.report.report import check_page, files_of, report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `report`."""
    add = parser.add_argument
    add("dataset", help="dataset directory or URL; it is only read")
    add("newer", nargs="?", help="newer dataset to compare it with")
    add("-o", "--output", metavar="FILE", default="report.html", help="page to write (default report.html)")
    add("--source", metavar="DIR", help="image folder that was converted, to show the images that were left out")
    add("--json", action="store_true", help="also print findings and figures as JSON")
    add("--quiet", action="store_true", help="no progress bar, no summary")


def run(args: argparse.Namespace) -> int:
    """Write the page, and print each finding on one line."""
    files = files_of(check_page(args.output))
    silent = (lambda images: None) if args.quiet or args.json else None
    found = report(args.dataset, args.newer, source=args.source, keep=files, progress=silent)
    size = found.save(args.output)
    if args.json:
        print(json.dumps({**found.to_json(), "page": args.output, "bytes": size}))
    elif not args.quiet:
        print(found)
        print(f"{escape(args.output)}: {size_text(size)}; lists and measurements are in {escape(files)}")
    return 0
