"""`shardfeed verify DIR`: compare every byte with the manifest; `--deep` also decodes every image."""

import argparse
import io
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

from shardfeed.declared import Typed, checked
from shardfeed.errors import IntegrityError, escape
from shardfeed.formats.example import decode
from shardfeed.manifest import read_manifest
from shardfeed.readers.verification import Verified, verify
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, RESTARTS, WIDTH, Dtype, Schema
from shardfeed.text import listing, number, size_text
from shardfeed.tools.arguments import command

_USUAL = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")  # how JPEG and PNG files begin


class _Outcome(NamedTuple):
    result: Verified
    deep: "_DeepCheck | None"
    seconds: float


@checked
def _verified(
    dataset: Annotated[str, Typed("dataset directory")],
    *,
    deep: Annotated[bool, Typed("also parse every record and decode every image")] = False,
    progress: Callable[[int], object],
) -> _Outcome:
    started = time.monotonic()
    check = _DeepCheck(dataset) if deep else None
    result = verify(dataset, check, progress)
    return _Outcome(result, check, time.monotonic() - started)


def _as_json(outcome: _Outcome) -> dict[str, Any]:
    result, deep, seconds = outcome
    damages = [{"file": d.file, "record": d.record, "offset": d.offset, "problem": d.problem} for d in result.damages]
    counts: dict[str, Any] = {"files": result.files, "records": result.records, "bytes": result.bytes}
    if deep is not None:
        counts["images"] = deep.to_json()
    return {**counts, "damages": damages, "strangers": result.strangers, "seconds": round(seconds, 3)}


def _print(outcome: _Outcome, args: argparse.Namespace) -> None:
    result, deep, seconds = outcome
    for damage in result.damages:
        print(damage)
    rate = size_text(result.bytes / max(seconds, 1e-9))
    if result.strangers:
        names = listing([escape(name) for name in result.strangers], 5)
        print(f"note: {number(len(result.strangers), 'other file')} not part of the dataset: {names}")
    counted = f"{number(result.files, 'file')}, {number(result.records, 'record')}"
    what = f"{counted}, {size_text(result.bytes)} at {rate}/s"
    found = "damaged" if result.damages else "all bytes unchanged"
    if deep is not None and not result.damages:
        found = f"{found}, {deep}"
    print(f"{escape(args.dataset)}: {what}: {found}")
    if result.damages:
        print("`shardfeed rebuild DIR` restores indexes, `shardfeed salvage DIR OUT` keeps the intact records")


add_arguments, run = command(_verified, _print, to_json=_as_json, damage=lambda outcome: outcome.result.damages)


class _DeepCheck:
    """Check of each record for `--deep`, and counts of decoded ones. `why_not`: the reason why it decodes no image."""

    def __init__(self, directory: str) -> None:
        self.decoded = self.not_decoded = 0
        self.why_not = ""
        self._key, self._trusted = ENCODED, True
        self._schema: Schema | None = None  # if its records have objects or masks
        try:
            manifest = read_manifest(directory)
        except IntegrityError:  # `verify` reports it
            return
        schema = manifest.schema
        key = schema.key(ENCODED)
        if key is None or schema.kind(key) != "image":
            self.why_not = "no feature contains images" + (f", by the bytes of {escape(key)}" if key else "")
        elif not schema.features[key].scalar:
            self.why_not = f"{escape(key)} is not one image per record"
        else:
            self._key, self._trusted = key, not manifest.options.get("adopted")
        if schema.object_keys or schema.raster is not None:
            self._schema = schema

    def __call__(self, payload: bytes) -> None:
        if self.why_not:
            decode(payload)
            self.not_decoded += 1
        else:
            self.decoded += 1  # or damage, which is counted separately
            check_image(payload, self._key, trusted=self._trusted)
            if self._schema is not None:
                check_annotations(payload, self._schema)

    def to_json(self) -> dict[str, Any]:
        """Counts of images that were decoded and that were not, and why not."""
        return {"decoded": self.decoded, "not_decoded": self.not_decoded, "why_not": self.why_not}

    def __str__(self) -> str:
        images = f"{self.not_decoded:,} image{'s' if self.not_decoded != 1 else ''}"
        well = "every image decodes" + (", and its annotations fit it" if self._schema is not None else "")
        return f"{images} not decoded: {self.why_not}" if self.why_not else well


def check_image(payload: bytes, key: str = ENCODED, *, trusted: bool = True) -> None:
    """Parse a record and decode its image. Raises IntegrityError with the fault.

    `trusted`: the record must hold the image's correct format, height and width. For foreign records, the format is
    detected from the image's bytes, and height and width may be missing but not wrong.
    """
    # Here, because importing the codecs takes longer than verifying a gigabyte.
    from shardfeed.converters.images.store import check_stored
    from shardfeed.converters.rejects import RejectedError

    features = decode(payload)
    encoded = bytes(_only(features, key, "bytes"))
    declared = _only(features, FORMAT, "bytes") if trusted or len(features.get(FORMAT, ("", ()))[1]) == 1 else b""
    kind = bytes(declared).lower().replace(b"jpg", b"jpeg")  # the Model Garden writes b"JPEG"
    sides = [_only(features, side, "int64") if trusted or side in features else -1 for side in (HEIGHT, WIDTH)]
    try:
        if trusted or kind == b"raw" or encoded.startswith(_USUAL):
            height, width = map(int, sides)
            restarts = bytes(_only(features, RESTARTS, "bytes")) if RESTARTS in features else b""
            check_stored(encoded, kind if trusted or kind == b"raw" else None, height, width, restarts)
        else:
            _check_other(encoded)
    except RejectedError as error:
        raise IntegrityError("record", f"its image does not decode: {error}") from error


def check_annotations(payload: bytes, schema: Schema) -> None:
    """Raise IntegrityError unless the objects and the mask of a record agree with its schema and its image."""
    from shardfeed.converters.shards.check_annotations import annotations_problem

    if problem := annotations_problem(decode(payload), schema):
        raise IntegrityError("record", problem)


def _check_other(encoded: bytes) -> None:
    """Raise IntegrityError unless Pillow decodes a file of a format that no conversion stores: WebP, GIF, BMP."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(encoded)) as image:
            image.load()
    except UnidentifiedImageError:
        raise IntegrityError("record", f"its image does not decode: it begins with {encoded[:8]!r}") from None
    except (ValueError, OSError, SyntaxError, Image.DecompressionBombError) as error:  # Pillow raises all of these
        raise IntegrityError("record", f"its image does not decode: {error}") from error


def _only(features: Mapping[str, tuple[Dtype, Any]], key: str, dtype: Dtype) -> Any:
    found, values = features.get(key, (None, ()))
    if found != dtype or len(values) != 1:
        raise IntegrityError("record", f"{escape(key)} is not one value of {dtype}")
    return values[0]
