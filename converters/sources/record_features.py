"""Features of foreign records: what all records have in common, and which features hold images, by their bytes.

A format stored by another program next to an image is not trusted.
"""

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardfeed.converters.images.jpeg import check_end_marker, read_jpeg_header
from shardfeed.converters.images.png import read_png_header
from shardfeed.converters.images.sniff import HEAD_BYTES, begins_as_image, image_kind
from shardfeed.converters.rejects import MAX_PIXELS, RejectCode, RejectedError
from shardfeed.converters.sources.guard import open_regular
from shardfeed.converters.sources.rows.columns import ClassTexts
from shardfeed.converters.sources.rows.roles import Kind
from shardfeed.errors import IntegrityError, escape, name_text
from shardfeed.formats.example import is_sequence_example
from shardfeed.formats.format import Fields
from shardfeed.formats.jpeg_markers import SIGNATURE, is_whole
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, PNG16, WIDTH, Dtype, Feature

# Records that are no Examples: how they begin, what they are, and what to do.
_OTHERS = (
    (b"\x09", "events of TensorBoard", "give the files that have the images"),
    (b"\x08", "tensors by tf.io.serialize_tensor", "read them with tf.io.parse_tensor, and write tf.train.Examples"),
    (b"{", "JSON texts", "write their values as features of tf.train.Examples"),
)
DAMAGED = "damaged"  # begins as an image, and no decoder would read it
UNKNOWN = "unknown"  # no known image

_STARTS = (SIGNATURE, b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM", b"RIFF", b"II", b"MM")
_TEXT_BYTES = 1 << 16  # a longer value is not text
_TEXTS = 1000  # records by which texts are known
_MOST_BYTES = 16 << 20  # bytes of a description beside the records
_KINDS: Mapping[Dtype, tuple[Kind, Kind]] = {
    "int64": ("integer", "integers"),
    "float32": ("float", "floats"),
    "bytes": ("text", "texts"),
}


def text_key(key: str) -> str:
    """The key of the texts beside the numbers under `key`: `x/text` beside `x/label`; "" for another key."""
    return f"{key.removesuffix('/label')}/text" if key.endswith("/label") else ""


@dataclass
class SeenFeature:
    """A feature as found in records. `first`: the place of its first value. `most`: most values in a record, up to 2.

    `least`, `highest`: of integers. `images`: records in which its bytes are an image file, `raw`: in which they are
    pixels; `text`: whether it is text in the first ones.
    """

    dtype: Dtype
    first: object
    records: int = 0
    single: bool = True
    most: int = 0
    least: int = 0
    highest: int = -1
    images: int = 0
    raw: int = 0
    text: bool = True

    @property
    def kind(self) -> Kind:
        """One value if no record has several; then a record without one is faulty."""
        if self.dtype == "bytes" and self.most == 1 and self.images:
            return "image"
        return _KINDS[self.dtype][self.most != 1] if self.text else "other"


class FeatureLook:
    """Collects the common features of records, passed to `add`. Memory does not grow with the number of records."""

    def __init__(self) -> None:
        self.records = 0
        self.seen: dict[str, SeenFeature] = {}
        self._texts: dict[str, ClassTexts] = {}  # by the key of their numbers

    def add(self, features: Fields, place: object, *, strict: bool = True) -> dict[str, str]:
        """Add a record, and return the format of each of its images, as `image_formats`.

        Raises IntegrityError at `place` if a feature has another dtype than in an earlier record; such a record is not
        counted. Without `strict`, only such a feature is not, and an empty list has no dtype: some writers store empty
        lists of texts as integers.
        """
        for key, (dtype, _) in features.items():
            seen = self.seen.get(key)
            if seen is None or seen.dtype == dtype:
                continue
            if strict:  # an empty list's counts too: TensorFlow's parser refuses it
                problem = f"feature {escape(key)} is {dtype}, but {seen.dtype} in {escape(seen.first)}"
                raise IntegrityError(place, problem, "write the records again with one dtype for each feature")
            seen.dtype = seen.dtype if seen.most else dtype
        if not strict:
            known = {key: seen.dtype for key, seen in self.seen.items()}
            features = {key: found for key, found in features.items() if known.get(key, found[0]) == found[0]}
        formats = image_formats(features)
        for key, (dtype, values) in features.items():
            seen = self.seen.get(key) or self.seen.setdefault(key, SeenFeature(dtype, place))
            count = len(values)
            seen.records += 1
            seen.single &= count == 1
            seen.most = max(seen.most, min(count, 2))
            if dtype == "int64" and count:
                numbers = np.asarray(values)
                low, high = (numbers.min(), numbers.max()) if count > 1 else (numbers[0], numbers[0])
                seen.least, seen.highest = min(seen.least, int(low)), max(seen.highest, int(high))
                texts = features.get(text_key(key))
                if texts is not None and texts[0] == "bytes":
                    named = [name_text(bytes(text)) for text in texts[1]]
                    self._texts.setdefault(key, ClassTexts()).add(numbers.tolist(), named)
            elif dtype == "bytes":
                form = formats.get(key, "")
                seen.raw += form == "raw"
                seen.images += form not in ("", "raw")
                if seen.text and form in ("", "raw") and self.records < _TEXTS:
                    seen.text = all(map(_is_text, values))
        self.records += 1
        return formats

    @property
    def dtypes(self) -> dict[str, Dtype]:
        """The dtype of each feature."""
        return {key: one.dtype for key, one in self.seen.items()}

    def texts(self, key: str, notes: list[str]) -> Mapping[int, str]:
        """Return the text beside each number of a label, in most of the records; adds a note on others."""
        found = self._texts.get(key)
        return (found and found.agreed(key, notes)) or {}

    def features(self, ragged: Collection[str] = ()) -> dict[str, Feature]:
        """Every feature with its dtype and shape: a scalar where every record has exactly one value of it, else ragged.

        `ragged`: keys that have any number of values, even where each record happens to have one.
        """
        found: dict[str, Feature] = {}
        for key, seen in sorted(self.seen.items()):
            one = seen.single and seen.records == self.records and key not in ragged
            found[key] = Feature(seen.dtype, () if one else (None,))
        return found


def not_examples(payload: bytes) -> tuple[str, str] | None:
    """Name what records like this one are, and what to do; None for tf.train.Examples, and for unknown records."""
    if begins_as_image(payload[:HEAD_BYTES]):
        return "image files with nothing around them", "write each as a feature of a tf.train.Example"
    for begin, what, remedy in _OTHERS:
        if payload.startswith(begin):
            return what, remedy
    if is_sequence_example(payload):
        return "tf.train.SequenceExamples", "write their lists as features of tf.train.Examples"
    return None


def _is_text(value: Any) -> bool:
    try:
        bytes(value[:_TEXT_BYTES]).decode()
    except UnicodeDecodeError:
        return False
    return len(value) < _TEXT_BYTES


def supervised_keys(directory: str) -> tuple[str | None, str | None]:
    """Image and label by TFDS's dataset_info.json in `directory`; (None, None) if it does not name them."""
    try:
        with open_regular(os.path.join(directory, "dataset_info.json")) as file:
            info: Any = json.loads(file.read(_MOST_BYTES))
        image, label = (item["featureKey"] for item in info["supervisedKeys"]["tuple"]["items"])
        return str(image), str(label)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None, None


def image_formats(features: Fields) -> dict[str, str]:
    """Key -> "jpeg", "png", "webp", "raw" ..., or DAMAGED, of each feature whose only value is an image by its bytes.

    Raw pixels are recognised only by `image/format`, and by their number of bytes for height and width. Of a JPEG or
    PNG only the header and the end are checked, not the image data.
    """
    found: dict[str, str] = {}
    for key, (dtype, values) in features.items():
        if dtype != "bytes" or len(values) != 1:
            continue
        data = bytes(values[0])
        if key == ENCODED and one_text(features, FORMAT) == b"raw":
            found[key] = (
                "raw" if len(data) == 3 * one_number(features, HEIGHT) * one_number(features, WIDTH) else DAMAGED
            )
        elif data.startswith(_STARTS) or data[4:8] == b"ftyp":
            try:
                found[key] = _file_format(data, one_text(features, FORMAT) if key == ENCODED else b"")
            except RejectedError as error:
                if error.code is not RejectCode.NOT_IMAGE:
                    found[key] = DAMAGED
    return found


def _file_format(data: bytes, stated: bytes) -> str:
    if is_whole(data):
        return "jpeg"
    kind = image_kind(data)
    if kind == "jpeg":
        header = read_jpeg_header(data, MAX_PIXELS)
        check_end_marker(data, header)
        return kind if header.process <= 2 and header.bits == 8 else DAMAGED
    if kind == "png":
        header = read_png_header(data, MAX_PIXELS, "header")
        return PNG16 if header.bits == 16 and stated == PNG16.encode() else kind
    return kind


def one_text(features: Fields, key: str) -> bytes:
    """The only value as text, an integer in digits; b"" if there is not exactly one."""
    dtype, values = features.get(key, ("", ()))
    if len(values) != 1 or dtype == "float32":
        return b""
    return bytes(values[0]) if dtype == "bytes" else b"%d" % int(values[0])


def one_number(features: Fields, key: str) -> int:
    """The only value, an integer; -1 if there is not exactly one integer."""
    dtype, values = features.get(key, ("int64", ()))
    return int(values[0]) if dtype == "int64" and len(values) == 1 else -1
