"""Passport of a dataset: `croissant.json`, by Croissant 1.1, and a dataset card for the Hub.

Both are made of the manifest and lie beside it, but are not part of the dataset: people edit a card. No image is
decoded; shards are read for the SHA-256 that Croissant asks for, and compared with the manifest on the way.

Sources: Croissant Format Specification, version 1.1; Hugging Face Hub documentation, "Dataset Cards".
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

from shardfeed.annotations import CAPTION, KEYPOINT_X, OBJECT_MASK
from shardfeed.declared import Text, Typed, checked
from shardfeed.errors import IntegrityError, OutputExistsError, UsageError, argument
from shardfeed.formats.container import column_names
from shardfeed.manifest import Manifest, read_manifest
from shardfeed.naming import BESIDE, CARD, CROISSANT, MANIFEST, shard_file
from shardfeed.schema import LABEL
from shardfeed.storage.local import write_file
from shardfeed.storage.storage import FileInfo, local_path
from shardfeed.text import in_usual_order, number, size_text

_MOST_CLASSES = 200  # in a card; croissant.json has all
_VALUES = {"int64": "cr:Int64", "float32": "cr:Float32", "bytes": "sc:Text"}
_LOADED = ("parquet", "webdataset")  # by `datasets`, which needs to know which files are of which split
_TERMS = (
    *("annotation", "arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "excludes", "extract"),
    *("field", "fileObject", "fileProperty", "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath"),
    *("key", "md5", "parentField", "path", "readLines", "recordSet", "references", "regex", "repeated", "replace"),
    *("samplingRate", "sdVersion", "separator", "source", "subField", "transform", "unArchive", "value"),
)
# Control characters, surrogates, marks that change the direction of text, and what no text has.
_UNSEEN = re.compile("[\x00-\x1f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]")
_CROISSANT = "http://mlcommons.org/croissant/"
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": _CROISSANT,
    "rai": f"{_CROISSANT}RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    **{term: {"@container": "@language"} for term in ("name", "description")},
    **{term: {"@id": f"cr:{term}", "@type": "@json"} for term in ("data", "examples")},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    **{term: f"cr:{term}" for term in _TERMS},
}


@checked
@dataclass(frozen=True, kw_only=True)
class CardOptions:
    """Facts about a dataset that no manifest knows, for its card and its croissant.json.

    `license`: a name, such as "cc-by-4.0" (the Hub's spelling), or a URL. `title`: default the dataset's name.
    `sources`: where the images come from, in words or as URLs. `citation`: BibTeX. `published`: a date, YYYY-MM-DD.
    `description` and `sources` may have Markdown, and several lines.

    Raises UsageError for a date of another form, and for text that is empty, has a NUL, or that UTF-8 cannot store.

    Example:
        about = CardOptions(license="cc-by-4.0", title="Flowers", creators=["Ada Byron"], published="2026-11-27")
    """

    license: Annotated[Text | None, Typed("license: the Hub's name of it, such as cc-by-4.0, or a URL", "NAME")] = None
    title: Annotated[Text | None, Typed("title of the card (default: the dataset's name)", "TEXT")] = None
    description: Annotated[Text | None, Typed("what the images show and what they are for", "TEXT")] = None
    url: Annotated[Text | None, Typed("page of the dataset", "URL")] = None
    creators: Annotated[Sequence[Text], Typed("person who made it; repeatable", "NAME", "creator", many=True)] = ()
    organizations: Annotated[
        Sequence[Text], Typed("organization that made it; repeatable", "NAME", "organization", many=True)
    ] = ()
    sources: Annotated[Sequence[Text], Typed("where images come from; repeatable", "TEXT", "source", many=True)] = ()
    citation: Annotated[Text | None, Typed("how to cite it, in BibTeX", "TEXT")] = None
    published: Annotated[Text | None, Typed("date of publication", "YYYY-MM-DD")] = None

    def __post_init__(self) -> None:
        try:  # it takes 20261127 and 2026-W48-5, too
            sound = self.published is None or date.fromisoformat(self.published).isoformat() == self.published
        except ValueError:
            sound = False
        if not sound:
            raise UsageError("published", f"got {self.published!r}, expected a date", "write YYYY-MM-DD")


@checked
def card(
    path: Annotated[
        str | os.PathLike[str], Typed("dataset directory, into which the two files are written", "dataset")
    ],
    about: Annotated[
        CardOptions | None, Typed("what they say, besides what the manifest knows", parts=CardOptions)
    ] = None,
    *,
    replace: Annotated[bool, Typed("replace files of these names")] = False,
    progress: Callable[[int], object] = lambda size: None,
) -> list[str]:
    """Write `croissant.json` and a dataset card, `README.md`, into the directory of a dataset.

    Returns the names of the options that Croissant requires and that are not given. All shards are read, and no image
    is decoded. `replace`: whether files of these names may be replaced. `progress` is called with bytes that were read.

    Raises UsageError if `path` is not a dataset, OutputExistsError, StorageError; IntegrityError, with nothing written,
    if a shard is not what the manifest says.

    Example:
        card("flowers", CardOptions(license="cc-by-4.0", url="https://example.com/flowers"))
    """
    directory, about = local_path(path), about or CardOptions()
    manifest = read_manifest(directory)
    for file in (os.path.join(directory, name) for name in BESIDE):
        if os.path.lexists(file) and not replace:
            raise OutputExistsError(file, "exists already", f"move it away, or give {argument('replace', True)}")
    files = _described_files(directory, manifest, progress)
    described = json.dumps(_croissant(manifest, about, files), indent=1, ensure_ascii=False)
    # Half a surrogate pair in a class name becomes \ud800, as JSON spells it.
    write_file(os.path.join(directory, CROISSANT), f"{described}\n".encode(errors="backslashreplace"))
    write_file(os.path.join(directory, CARD), "\n".join(_readme(manifest, about)).encode(errors="backslashreplace"))
    given = {"license": about.license, "url": about.url, "creators": about.creators or about.organizations}
    return [name for name, value in {**given, "published": about.published}.items() if not value]


def _described_files(
    directory: str, manifest: Manifest, progress: Callable[[int], object]
) -> dict[str, tuple[int, str]]:
    """Name -> bytes and SHA-256 of the manifest and the shards. Raises IntegrityError for other bytes."""
    expected: dict[str, FileInfo | None] = {MANIFEST: None}
    for name in in_usual_order(manifest.splits):
        split = manifest.splits[name]
        expected |= {split.shard_file(shard): info.data for shard, info in enumerate(split.shards)}
    files: dict[str, tuple[int, str]] = {}
    for name, info in expected.items():
        path, digest = os.path.join(directory, name), hashlib.sha256()
        found = FileInfo.of_file(path, also=digest.update)
        if info is not None and (problem := info.difference(found)):
            raise IntegrityError(path, problem, "`shardfeed verify DIR` names all damage")
        files[name] = found.size, digest.hexdigest()
        progress(found.size)
    return files


def _node(kind: str, id: str, **more: Any) -> dict[str, Any]:
    return {"@type": f"cr:{kind}", "@id": id, "name": id, **more}


def _croissant(manifest: Manifest, about: CardOptions, files: dict[str, tuple[int, str]]) -> dict[str, Any]:
    """The content of croissant.json; `files`: bytes and SHA-256 of each file that it lists."""
    shards = f"application/x-{'tar' if manifest.format == 'webdataset' else manifest.format}"
    distribution = [
        _node("FileObject", name, contentUrl=name, contentSize=f"{size} B", sha256=sha256, encodingFormat=shards)
        for name, (size, sha256) in files.items()
    ]
    distribution[0]["encodingFormat"] = "application/json"  # the manifest
    patterns = {re.sub(r"[^/]*(\.\w+)$", r"*\1", name) for name in files if name != MANIFEST}
    link = about.license if _is_url(about.license) else {"@type": "CreativeWork", "name": about.license}
    makers = [*(("Person", name) for name in about.creators), *(("Organization", name) for name in about.organizations)]
    given = {
        "license": about.license and link,
        "url": about.url,
        "creator": [{"@type": kind, "name": name} for kind, name in makers],
        "datePublished": about.published,
        "citeAs": about.citation,
        "isBasedOn": [*about.sources],
    }
    return {
        "@context": _CONTEXT,
        "@type": "Dataset",
        "conformsTo": f"{_CROISSANT}1.1",
        "name": about.title or manifest.name,
        "description": about.description or f"{_counts(manifest)}.",
        **{key: value for key, value in given.items() if value},
        "distribution": [*distribution, _node("FileSet", "shards", encodingFormat=shards, includes=sorted(patterns))],
        "recordSet": [*_lists(manifest), _node("RecordSet", "records", field=[*_fields(manifest)])],
    }


def _lists(manifest: Manifest) -> Iterator[dict[str, Any]]:
    """The record sets whose data is here: the splits, and the classes of each feature with class names."""
    lists: dict[str, tuple[str, dict[str, Sequence[Any]]]]
    lists = {"splits": ("cr:Split", {"name": in_usual_order(manifest.splits)})}
    for key, names in manifest.schema.class_names.items():
        lists[f"{key}/classes"] = ("sc:Enumeration", {"number": range(len(names)), "name": names})
    for id, (kind, columns) in lists.items():
        ids = [f"{id}/{column}" for column in columns]
        fields = [_node("Field", one, dataType=f"sc:{'Integer' if one.endswith('number') else 'Text'}") for one in ids]
        rows = [dict(zip(ids, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        yield _node("RecordSet", id, dataType=kind, key={"@id": ids[0]}, field=fields, data=rows)


def _fields(manifest: Manifest) -> Iterator[dict[str, Any]]:
    """The fields of a sample: its split, by the name of the file, and each feature."""
    schema, files = manifest.schema, {"fileSet": {"@id": "shards"}}
    before, _, after = shard_file("\0", 0, 1, manifest.format).partition("\0")
    names, suffix = "|".join(in_usual_order(manifest.splits)), re.escape(os.path.splitext(after)[1])
    # So simple that mlcroissant makes a glob of it, to read only the files of a split.
    of_split = {"regex": f"{before}({names}){after[0]}.*{suffix}$"}
    source: dict[str, Any] = {**files, "extract": {"fileProperty": "fullpath"}, "transform": of_split}
    yield _node(
        "Field", "records/split", dataType="sc:Text", source=source, references={"field": {"@id": "splits/name"}}
    )
    columns = column_names(schema) if manifest.format == "parquet" else {}
    raw = any("raw" in split.formats for split in manifest.splits.values())
    for key, feature in schema.features.items():
        column, kind, more = columns.get(key, key), schema.kind(key), {}
        if not feature.scalar:
            more = {"isArray": True, "arrayShape": ",".join(str(side or -1) for side in feature.shape)}
        source = {**files, "extract": {"column": column}}
        types: Any = _VALUES[feature.dtype]
        if kind in ("raster", "mask") or (kind == "image" and not raw):
            types, source = "sc:ImageObject", source | ({"transform": {"jsonPath": "bytes"}} if columns else {})
            more |= {"repeated": True} if more else {}  # as mlcroissant 1.1 knows lists of images only by this
        elif kind in ("label", "tags"):
            types = [types, "cr:Label"]
        yield _node("Field", f"records/{column}", dataType=types, source=source, **more)


def _readme(manifest: Manifest, about: CardOptions) -> Iterator[str]:
    """The lines of a dataset card. What is not of this package passes `_plain` or `_quoted`, or is Markdown by rule."""
    splits, title = [manifest.splits[name] for name in in_usual_order(manifest.splits)], about.title or manifest.name
    yield from _head(manifest, about, title)
    yield from (f"# {_plain(title)}", "", *([about.description, ""] if about.description else []))
    yield from (f"{_counts(manifest)}, {size_text(sum(split.size for split in splits))}.", "")
    yield from _table(["split", "images", "bytes"], [[split.name, split.records, split.size] for split in splits])
    for key in manifest.schema.class_names:
        yield from _class_table(manifest, key)
    if manifest.rejected:
        codes = ", ".join(f"{count:,} {_plain(code)}" for code, count in manifest.rejected.items())
        yield from (f"Left out in the conversion, as they could not be used: {codes}.", "")
    yield from _facts(about)


def _head(manifest: Manifest, about: CardOptions, title: str) -> Iterator[str]:
    """The lines of the card's head, in YAML. Its texts are JSON, which is YAML, too."""
    yield from ("---", f"pretty_name: {_quoted(title)}", *_license_lines(about.license))
    yield f"task_categories: {json.dumps(_tasks(manifest))}"
    total = sum(split.records for split in manifest.splits.values())
    upper = max(3, len(str(total)))  # digits; the Hub's categories are 10K<n<100K, 100K<n<1M, ...
    low, high = (f"{10 ** (digits % 3)}{'_KMBT'[digits // 3]}" for digits in (upper - 1, upper))
    yield f"size_categories: [{json.dumps(f'{low}<n<{high}' if total >= 1000 else 'n<1K')}]"
    yield "tags: [shardfeed]"
    if manifest.format in _LOADED:
        yield from ("configs:", "- config_name: default", "  data_files:")
        for name in in_usual_order(manifest.splits):
            if len(manifest.splits[name].shards):
                yield from (f'  - split: "{name}"', f'    path: "data/{name}-*"')  # YAML's no is false
    yield from ("---", "")


def _license_lines(license: str | None) -> list[str]:
    """The license as the Hub takes it: a name that it may know, or `other` and a link, or a name."""
    if not license:
        return []
    if _is_url(license):
        return ["license: other", "license_name: other", f"license_link: {_quoted(license)}"]
    if re.fullmatch(r"[\w.+-]+", license, re.ASCII):
        return [f"license: {json.dumps(license.lower())}"]
    name = re.sub(r"[^a-z0-9.]+", "-", license.lower()).strip("-")  # the Hub refuses other characters
    return ["license: other", f"license_name: {json.dumps(name or 'other')}"]


def _tasks(manifest: Manifest) -> list[str]:
    """The Hub's names of the tasks that the dataset is for."""
    schema = manifest.schema
    tasks = {
        "image-classification": schema.key(LABEL) in schema.class_names,
        "object-detection": any(schema.kind(key) == "box" for key in schema.features),
        "image-segmentation": schema.raster is not None or OBJECT_MASK in schema.features,
        "keypoint-detection": KEYPOINT_X in schema.features,
        "image-to-text": CAPTION in schema.features,
    }
    return [task for task, has in tasks.items() if has]


def _class_table(manifest: Manifest, key: str) -> Iterator[str]:
    """The lines of the table of a feature's classes: of each its number of values in each split."""
    names = manifest.schema.class_names[key]
    splits = [manifest.splits[name] for name in in_usual_order(manifest.splits)]
    counts = [split.class_counts.get(key, ()) for split in splits]  # a manifest may have no counts
    rows = [[name, *(of_split[i] if i < len(of_split) else 0 for of_split in counts)] for i, name in enumerate(names)]
    yield from (f"## Classes of {_plain(key)}: {len(names)}", "")
    yield from _table(["class", *(split.name for split in splits)], rows[:_MOST_CLASSES])
    if len(rows) > _MOST_CLASSES:
        yield from (f"{CROISSANT} has all of them.", "")


def _facts(about: CardOptions) -> Iterator[str]:
    """The lines of the sections that say what no manifest knows, and how to read the dataset."""
    fence = "`" * (1 + max(2, *map(len, re.findall("`*", about.citation or ""))))
    license = about.license or ""
    texts = {
        "Read it": ["```python", "import shardfeed", "", 'data = shardfeed.open("DIR")', "```"],
        "Sources": ["- " + "\n  ".join(source.splitlines()) for source in about.sources],
        "Made by": [f"- {_plain(name)}" for name in (*about.creators, *about.organizations)],
        "License": [f"<{license}>" if _is_url(license) else _plain(license)] if license else [],
        "Citation": [f"{fence}bibtex", about.citation, fence] if about.citation else [],
    }
    for heading, lines in texts.items():
        if lines:
            yield from (f"## {heading}", "", *lines, "")


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """The lines of a table in Markdown, and an empty one."""
    ruler = ["---", *["---:"] * (len(head) - 1)]
    for row in (head, ruler, *rows):
        cells = ruler if row is ruler else (f"{cell:,}" if isinstance(cell, int) else _plain(str(cell)) for cell in row)
        yield f"| {' | '.join(cells)} |"
    yield ""


def _quoted(text: str) -> str:
    """A text as JSON that is YAML, too, which refuses some characters, and takes others for the end of a line."""
    written = json.dumps(text, ensure_ascii=False)
    refused = r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]"
    return re.sub(refused, lambda one: f"\\u{ord(one[0]):04x}", written)


def _plain(text: str) -> str:
    """A text on one line of a card, in which nothing is markup, and no character hides or turns others."""
    line = _UNSEEN.sub("\ufffd", " ".join(text.split()))
    escaped = re.sub(r"[\\|`*_<>\[\]&~$]", r"\\\g<0>", line)
    return re.sub(r"^(\d*)([-+#.)=:])", r"\1\\\2", escaped)


def _counts(manifest: Manifest) -> str:
    """How many images there are: `48 images in 2 splits`."""
    total = sum(split.records for split in manifest.splits.values())
    return f"{number(total, 'image')} in {number(len(manifest.splits), 'split')}"


def _is_url(text: str | None) -> bool:
    """Whether a text is a URL and nothing else: without blanks, and signs that a link in Markdown may not have."""
    return re.fullmatch(r"https?://[^\s<>\"\\^`{|}\x00-\x20\x7f-\x9f]+", text or "") is not None
