"""How the files of annotation tools begin: each tool is known by the first bytes of its files."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from shardfeed.converters.sources.look import Signature, signature_of

_GROUPS = frozenset({"group_column"})
_CLASS = frozenset({"label_columns"})


class ToolFiles(NamedTuple):
    """Files of a tool: ends of names, first bytes; `takes`: options besides those of boxes."""

    suffixes: tuple[str, ...]
    signature: Signature
    takes: Collection[str]


def _tool(found: str, *ends: str, words: Sequence[bytes] = (), takes: Collection[str] = (), **begin: Any) -> ToolFiles:
    return ToolFiles(ends, signature_of(found, *words, **begin), takes)


TOOLS = {
    "labelme": _tool("{} has shapes, as LabelMe saves them", ".json", words=(b'"shapes"', b'"imagePath"|"flags"')),
    "via": _tool(
        *("{} has regions, as VIA saves them", ".json", ".csv"),
        begins=rb'(?=.*"shape_attributes")(?=.*"filename")|filename,file_size,file_attr',
        takes=_CLASS,
    ),
    "label-studio": _tool(
        *("{} has tasks, as Label Studio exports them", ".json", ".csv"),
        begins=rb'(?=.*"annotations")(?=.*"data")(?=.*(?:"result"|"file_upload"))'
        rb'|(?=\s*\[)(?=.*"annotator")(?=.*"id")|(?=[^\n]*annotator)(?=[^\n]*annotation_id|.*rectanglelabels)',
        takes=_CLASS,
    ),
    "cvat": _tool(
        *("{} begins with <annotations>, as in CVAT", ".xml"),
        words=(b"<image |<track |<meta>",),
        begins=b"(?=.{0,387}<annotations>)",
        takes=_GROUPS,
    ),
    "createml": _tool(
        *("{} is a list of images with coordinates", ".json"),
        words=(b'"image"', b'"annotations"', b'"coordinates"', b'"label"'),
        begins=rb"(?=[\xef\xbb\xbf\s]*\[)",
    ),
    "supervisely": _tool(
        *("{} has objects, as Supervisely saves them", ".json"),
        words=(b'"objects"', b'"size"', b'"classTitle"|"description"'),
        inside="ann",
    ),
    "fiftyone": _tool(
        *("{} has labels, as FiftyOne exports them", "samples.json", "labels.json"),
        begins=rb'(?=\s*\{.{0,190}"samples")(?=.*"filepath")'
        rb'|(?!\s*.{0,190}"images")(?=\s*.{0,190}"classes")(?=.*"labels")',
        beside="data",
        takes=_GROUPS | _CLASS,
    ),
    "sagemaker": _tool(
        *("{} names images as source-ref, as SageMaker Ground Truth does", ".manifest", ".jsonl", ".json"),
        words=(b'"source-ref"',),
        begins=rb"\s*\{",
        takes={"encoding"},
    ),
}
