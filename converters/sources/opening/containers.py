"""Files of many samples: recognised by their content, or read as what they are said to be."""

import os
from collections.abc import Sequence
from dataclasses import replace

from shardfeed.converters.sources.annotations import recognise as annotations
from shardfeed.converters.sources.annotations.recognise import Evidence, only_one
from shardfeed.converters.sources.containers import recognise as containers
from shardfeed.converters.sources.containers.options import ContainerOptions
from shardfeed.converters.sources.files.glance import Glance
from shardfeed.converters.sources.opening.described import described
from shardfeed.converters.sources.opening.plain import Plain
from shardfeed.converters.sources.source import Source
from shardfeed.errors import UsageError, argument
from shardfeed.manifest import has_manifest
from shardfeed.naming import MANIFEST
from shardfeed.text import some


def recognise(glance: Glance, options: ContainerOptions, name: str | None, others: Sequence[str]) -> Sequence[Evidence]:
    """What readers of files of many samples say of a path, or the one that was asked for.

    `name`: of the reader, where it was said. `others`: arguments that were given and are about other sources. Raises
    UsageError for arguments that do not go together, and for a dataset.
    """
    path = glance.path
    if name is None and os.path.isfile(os.path.join(path, MANIFEST)) and has_manifest(path):
        remedy = "`shardfeed reshard DIR OUT` makes other shards of it, `append`, `merge`, `filter` and others more"
        raise UsageError(path, "is a dataset already", remedy)
    names = ["folder", "labels", *dict(annotations.READERS), *dict(containers.READERS)]
    if name is not None and name not in names:
        problem = f"got {name!r}, expected one of {', '.join(names)}"
        raise UsageError("reader", problem, "leave it out: files say what they are")
    if name in dict(containers.READERS):
        if others:
            problem = f"{name} reads files of many samples, and {argument(others[0])} is not about them"
            raise UsageError("reader", problem, "leave one of the two out")
        return [Evidence(str(name), "as asked")]
    found = containers.recognise(path, options, glance) if name is None and not others else ()
    own = {"columns": options.columns, "label_offset": options.label_offset, "label_map": options.label_map}
    for said, value in own.items():
        if value and not found:
            problem = f"{argument(said)} is about files of many samples, and this is read as something else"
            raise UsageError(path, problem, f"leave it out, or say what it is by {argument('reader', typed='NAME')}")
    return found


def read(path: str, options: ContainerOptions, fit: Evidence, plain: Plain, *, asked: bool) -> Source:
    """The source that the reader `fit` makes; `asked`: whether that was said.

    Raises UsageError where images lie beside the files, or only some files are wanted; and what the reader raises.
    """
    if not asked and os.path.isdir(path) and (images := _images_beside(path) or some(plain.classes())):
        only_one(path, [Evidence("folder", f"images ({images})"), fit])
    for name in (name for name, value in plain.wanted.items() if value):
        problem = f"{argument(name)} is about files of one image, and this is read as {fit.name}"
        remedy = f"give the one file that is wanted; or, where images are meant, {argument('reader', 'folder')}"
        raise UsageError(path, problem, remedy)
    module = containers.reader(fit.name)
    assert module is not None, "it gave the evidence, or was named"
    source = module.read(path, options)
    source = replace(source, findings=replace(source.findings, in_files=True))
    by = f"read as {fit.name}, as asked" if asked else f"recognised as {fit.name}"
    return described(source, f"{by}: {source.described}")


def _images_beside(path: str) -> str:
    """An image file in a folder or in the folders of its folders, relative; "" for a file, and for a folder without.

    Beside shards of others it would be left out.
    """
    for folder, folders, names in os.walk(path):
        below = os.path.relpath(folder, path)
        image = next((name for name in names if name.lower().endswith(containers.IMAGES) and name[0] != "."), "")
        if image:
            return os.path.normpath(os.path.join(below, image))
        deepest = below != "." and os.sep in below  # train/cat/1.jpg
        folders[:] = [] if deepest else sorted(name for name in folders if name[0] != ".")
    return ""
