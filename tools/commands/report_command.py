"""`shardfeed report DIR -o report.html`: one page to look at a dataset in a browser."""

import argparse
import json

from shardfeed.errors import escape
from shardfeed.text import size_text
from shardfeed.tools.arguments import add_options, add_output_arguments, options_given
from shardfeed.tools.report.report import PAGE, DatasetReport, check_page, files_of, report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `report`."""
    add_options(parser, DatasetReport.save, report)
    add_output_arguments(parser, "also print findings and figures as JSON")


def run(args: argparse.Namespace) -> int:
    """Write the page, and print each finding on one line."""
    files = files_of(output := check_page(args.output or PAGE))
    silent = (lambda images: None) if args.quiet or args.json else None
    found = report(**options_given(args, report), keep=files, progress=silent)
    size = found.save(output)
    if args.json:
        print(json.dumps({**found.to_json(), "page": output, "bytes": size}))
    elif not args.quiet:
        print(found)
        print(f"{escape(output)}: {size_text(size)}; lists and measurements are in {escape(files)}")
    return 0
