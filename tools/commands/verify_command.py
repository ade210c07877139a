"""`shardfeed verify DIR`: compare every byte with the manifest; `--deep` also decodes every image."""

import argparse
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from tqdm import tqdm

from shardfeed.errors import IntegrityError, escape
from shardfeed.formats.native import NATIVE
from shardfeed.manifest import read_manifest
from shardfeed.readers.verification import verify
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, WIDTH, Dtype
from shardfeed.text import listing, number, size_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `verify`."""
    parser.add_argument("dataset", help="dataset directory")
    parser.add_argument("--deep", action="store_true", help="parse every record and decode every image too")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress bar, no summary")


def run(args: argparse.Namespace) -> int:
    """Verify and print what was found; exit code 4 when something was."""
    started = time.monotonic()
    quiet = args.quiet or args.json
    with tqdm(unit="B", unit_scale=True, disable=True if quiet else None) as bar:
        result = verify(args.dataset, _check(args.dataset) if args.deep else None, bar.update)
    seconds = time.monotonic() - started
    if args.json:
        damages = [
            {"file": d.file, "record": d.record, "offset": d.offset, "problem": d.problem} for d in result.damages
        ]
        counts = {"files": result.files, "records": result.records, "bytes": result.bytes}
        print(json.dumps({**counts, "damages": damages, "strangers": result.strangers, "seconds": round(seconds, 3)}))
    elif not args.quiet:
        for damage in result.damages:
            print(damage)
        rate = size_text(result.bytes / max(seconds, 1e-9))
        if result.strangers:
            names = listing([escape(name) for name in result.strangers], 5)
            print(f"{number(len(result.strangers), 'file')} beside the dataset, not of it, and no damage: {names}")
        what = (
            f"{number(result.files, 'file')}, {number(result.records, 'record')}, {size_text(result.bytes)} at {rate}/s"
        )
        print(f"{args.dataset}: {what}: {'damaged' if result.damages else 'all as written'}")
        if result.damages:
            print(
                "`shardfeed index DIR --rebuild` makes indexes again, `shardfeed salvage DIR OUT` keeps what is whole"
            )
    return IntegrityError.exit_code if result.damages else 0


def _check(directory: str) -> Callable[[bytes], object]:
    """What `--deep` does with a record: one of a dataset that was not converted may have no image."""
    try:
        features = read_manifest(directory).schema.features
    except IntegrityError:  # `verify` says it
        return check_image
    image = [features.get(key) for key in (ENCODED, FORMAT, HEIGHT, WIDTH)]
    return check_image if all(feature is not None and not feature.ragged for feature in image) else NATIVE.decode


def check_image(payload: bytes) -> None:
    """Parse a record and decode its image. Raises IntegrityError that says what is wrong with it."""
    # Here, as the codecs take longer to import than a dataset of a gigabyte to verify.
    from shardfeed.converters.images.store import check_stored
    from shardfeed.converters.rejects import RejectedError

    features = NATIVE.decode(payload)
    encoded, kind = _only(features, ENCODED, "bytes"), _only(features, FORMAT, "bytes")
    height, width = _only(features, HEIGHT, "int64"), _only(features, WIDTH, "int64")
    try:
        # The Model Garden writes b"JPEG".
        check_stored(bytes(encoded), bytes(kind).lower().replace(b"jpg", b"jpeg"), int(height), int(width))
    except RejectedError as error:
        raise IntegrityError("record", f"its image does not decode: {error}") from error


def _only(features: Mapping[str, tuple[Dtype, Any]], key: str, dtype: Dtype) -> Any:
    found, values = features.get(key, (None, ()))
    if found != dtype or len(values) != 1:
        raise IntegrityError("record", f"{key} is not one value of {dtype}")
    return values[0]
