"""Recognise files that may label images by their first bytes, so that no reader passes them over in silence."""

import re
import zlib
from typing import Literal, NamedTuple

from shardfeed.errors import escape
from shardfeed.text import listing, some

# Extension -> format of a label file.
LABEL_FORMATS: dict[str, Literal["csv", "tsv", "jsonl", "text", "parquet"]] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "text",
    ".lst": "text",
    ".list": "text",
    ".parquet": "parquet",
}
_GZIP = b"\x1f\x8b\x08"
_KEY = re.compile(rb'"([^"\\\n]{1,40})"\s*:')
_LABEL_KEYS = frozenset(
    b"annotations annotation shapes regions objects boxes bbox bboxes bounding_box bounding_boxes box2d gtboxes bndbox "
    b"segmentation segmentations polygon polygons points keypoints landmarks mask masks rle categories category "
    b"category_id class classes class_id label labels tag tags detections instances coordinates caption captions "
    b"prompt source-ref imagefilename region_attributes item slots detection_categories features".split()
)
# What no reader reads: all of these words are in its first bytes; its name, and what its users do.
_UNPACK = "unpack it: `gunzip -k FILE`"
_EXPORT = "export COCO, YOLO or Pascal VOC"
_OWN = "convert it to COCO, or write a source class (docs/your-own-source.md)"
_UNREAD = (
    ((b'"predicted_iou"',), "SA-1B's masks", _OWN),
    ((b'"detection_categories"',), "MegaDetector's boxes", _OWN),
    ((b'"gtboxes"',), "CrowdHuman's boxes", _OWN),
    ((b'"box2d"',), "BDD100K's boxes", _OWN),
    ((b'"data_row"',), "Labelbox's export", _EXPORT),
    ((b'"FeatureCollection"',), "GeoJSON", _OWN),
    ((b'"imagefilename"',), "Create ML's boxes by imagefilename", 'name the keys "image" and "annotations"'),
    ((b'"project"', b'"attribute"', b'"metadata"'), "VIA 3's project", "export COCO from VIA"),
    ((b'"annotations"', b'"item"'), "V7's annotations", _EXPORT),
    ((b'"annotations"', b'"slot_names"'), "V7's annotations", _EXPORT),
    ((b'"image_url"', b'"topX"'), "Azure ML's boxes", "export COCO from Azure ML"),
    ((b'"image_url"', b'"polygon"', b'"label"'), "Azure ML's polygons", "export COCO from Azure ML"),
    ((b'"imageGcsUri"',), "Vertex AI's annotations", _OWN),
    ((b'"spans"', b'"_input_hash"'), "Prodigy's annotations", _OWN),
    ((b'"spans"', b'"answer"'), "Prodigy's annotations", _OWN),
    ((b'"asset"', b'"regions"', b'"boundingBox"'), "VoTT's annotations", "export CSV or Pascal VOC from VoTT"),
    ((b'"jsonResponse"',), "Kili's annotations", _EXPORT),
    ((b'"label_hash"', b'"data_units"'), "Encord's annotations", "export COCO from Encord"),
    ((b'"instances"', b'"className"'), "SuperAnnotate's annotations", "export COCO from SuperAnnotate"),
    ((b'"label_classes"', b'"export_format_version"'), "Hasty's annotations", "export COCO from Hasty"),
    ((b'"dm_format_version"',), "Datumaro's annotations", _EXPORT),
)
_OF_XML = re.compile(rb"<(object|bndbox|box|polygon|annotations?|image)[\s>/]", re.IGNORECASE)
_IMAGE_NAME = re.compile(rb"[^\s,;\"]\.(?:jpe?g|png|bmp|tiff?|gif|webp)(?![a-z])", re.IGNORECASE)
_NUMBER = re.compile(rb"[-+]?\d*\.?\d+(?:e[-+]?\d+)?\Z")
_BINARY = (
    (re.compile(rb"\x89HDF\r\n\x1a\n"), "HDF5"),
    (re.compile(rb"MATLAB 5\.0"), "a MATLAB file"),
    (re.compile(rb"PAR1"), "Parquet"),
    (re.compile(rb"\x80[\x02-\x05]"), "a pickle"),
    (re.compile(rb"SQLite format 3\0"), "an SQLite database"),
    (re.compile(rb"PK\x03\x04.{26}(?:\[Content_Types\]|xl/|_rels/|docProps/|mimetype)", re.DOTALL), "a spreadsheet"),
)
_LINES, _SHOWN = 20, 5
_WHOLE = 4000  # bytes of a text that is surely read whole


class AnnotationFile(NamedTuple):
    """A file that may label images: `what` it is, and the `remedy` where nothing reads it.

    `kind`: "tool" for JSON of a tool that is known, "document" for other JSON and XML, "numbers" for lines of them,
    "binary", "packed" with gzip, "table" for a table or a list of images, "beside" for any file named like an image.
    """

    what: str
    kind: Literal["tool", "document", "numbers", "binary", "packed", "table", "beside"]
    remedy: str = ""

    @property
    def is_sure(self) -> bool:
        """Whether it labels the images in some other way than by names of folders and files."""
        return self.kind not in ("table", "beside")


def recognise_annotations(head: bytes) -> AnnotationFile | None:
    """Recognise a file that may label images by its first bytes, `head`; None for any other."""
    packed = head.startswith(_GZIP)
    if packed:
        try:
            head = zlib.decompressobj(31).decompress(head, 4096)
        except zlib.error:
            return None
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    found = None
    if text.startswith((b"{", b"[")):
        keys = set(_KEY.findall(text))
        found = json_file(text)
        if not (found.kind == "tool" or keys & _LABEL_KEYS or any(map(_IMAGE_NAME.search, keys))):
            rows = text.splitlines()[:2]
            listed = len(rows) == 2 and all(row[:1] == b"{" and _IMAGE_NAME.search(row) for row in rows)
            found = found._replace(kind="table", remedy="") if listed else None
    elif text.startswith(b"<"):
        tag = _OF_XML.search(text)
        found = tag and AnnotationFile(f"XML with <{tag[1].decode()}>", "document")
    elif binary := next((what for start, what in _BINARY if start.match(head)), ""):
        return AnnotationFile(binary, "binary", "save it as CSV" if binary == "a spreadsheet" else "")
    elif b"\0" not in head:
        found = _of_lines(text)
    return AnnotationFile(f"{found.what}, in gzip", "packed", _UNPACK) if found and packed else found


def json_file(head: bytes) -> AnnotationFile:
    """Describe JSON that no reader reads: by the tool that writes it, or by its keys."""
    for words, name, remedy in _UNREAD:
        if all(word in head for word in words):
            return AnnotationFile(f"JSON, {name}", "tool", remedy)
    keys = [escape(key) for key in dict.fromkeys(_KEY.findall(head))]
    what = f"JSON with the keys {listing(keys, _SHOWN)}" if keys else "JSON without any key"
    return AnnotationFile(what, "document", _EXPORT)


def _of_lines(text: bytes) -> AnnotationFile | None:
    """Recognise lines of numbers, names of images, or a table with at least two columns and two rows."""
    lines = [line for line in text.splitlines()[:_LINES] if line.strip()]
    lines = lines[:-1] if len(text) > _WHOLE and len(lines) < _LINES else lines  # the last may be cut
    half = len(lines) / 2
    if lines and sum(map(_has_numbers, lines)) >= half:
        return AnnotationFile("lines of numbers", "numbers")
    images = [_IMAGE_NAME.search(line) is not None for line in lines]
    listed = bool(lines) and sum(images) >= half
    for mark in b",", b"\t", b";":
        cells = {line.count(mark) for line in lines}
        if len(lines) > 1 and len(cells) == 1 and cells != {0} and not (listed and images[0]):
            columns = [cell.strip(b' "') for cell in lines[0].split(mark)]
            return AnnotationFile(f"a table with the columns {some(columns)}", "table")
    return AnnotationFile("a list of images", "table") if listed else None


def _has_numbers(line: bytes) -> bool:
    """Whether most of a line are numbers, at least four, as of a box and its class."""
    words = re.split(rb"[\s,;]+", line.strip())
    return sum(_NUMBER.match(word) is not None for word in words) >= max(4, (len(words) + 1) // 2)
