"""`shardfeed card DIR`: write croissant.json and a dataset card."""

import argparse
import os
from collections.abc import Sequence

from shardfeed.converters.existing.passport import CardOptions, card
from shardfeed.declared import typed
from shardfeed.errors import escape
from shardfeed.naming import BESIDE
from shardfeed.text import listing
from shardfeed.tools.arguments import command


def _print(missing: Sequence[str], args: argparse.Namespace) -> None:
    for name in BESIDE:
        print(escape(os.path.join(args.path, name)))
    if missing:
        flags = {option.name: f"--{option.how[0].flag or option.name}" for option in typed(CardOptions)}
        print(f"note: Croissant also requires {listing([flags[name] for name in missing])}")


add_arguments, run = command(card, _print, to_json=lambda missing: {"missing": missing})
