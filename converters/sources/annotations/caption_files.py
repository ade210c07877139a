"""Captions in text files with the names of images: img2dataset's files, kohya's folders; one caption per line.

00000/000000000.jpg, 00000/000000000.txt       10_sks dog/a.png, 10_sks dog/a.caption       images/a.jpg, captions/a.txt
"""

import os
from collections import Counter
from itertools import islice

from shardfeed.converters.rejects import AnnotationCode
from shardfeed.converters.sources.annotations.documents import reason_of
from shardfeed.converters.sources.files.annotation_files import recognise_annotations
from shardfeed.converters.sources.files.listing import names_image
from shardfeed.converters.sources.files.text import encoding_of
from shardfeed.converters.sources.files.walk import is_remark
from shardfeed.converters.sources.look import Evidence, Look
from shardfeed.converters.sources.options import AnnotationOptions
from shardfeed.converters.sources.reading import read_whole
from shardfeed.converters.sources.rows.annotations import Annotations
from shardfeed.converters.sources.rows.evidence import column_meaning
from shardfeed.converters.sources.rows.rows import ColumnarSource
from shardfeed.errors import LabelFileError, UsageError, escape, name_text
from shardfeed.text import counted

_ENDS = (".txt", ".caption")
_LOOKED_AT = 200  # text files
_IMAGE_ENDS = (".jpg", ".png", ".jpeg", ".webp", ".JPG", ".PNG", ".JPEG")


def recognise(look: Look, options: AnnotationOptions) -> Evidence | None:
    """Recognise texts with the names of images, if most are sentences or phrases that differ from each other."""
    if not look.is_folder:
        return None
    texts = list(islice(look.files(_ENDS), _LOOKED_AT))
    stems = {name: os.path.splitext(look.full(name))[0] for name in texts}
    found = [name for name in texts if any(os.path.exists(stems[name] + end) for end in _IMAGE_ENDS)]
    images = look if options.images is None else Look(os.fsdecode(options.images))
    if not found:
        of_images = {_stem(name) for name in images.files() if names_image(os.fsencode(name))}
        found = [name for name in texts if _stem(name) in of_images]
    plain = Counter[str]()
    for head in (look.head(look.full(name)) for name in found):
        kind = recognise_annotations(head)
        if kind is None or kind.kind == "table":  # which a text with commas may look like
            plain[head.decode(encoding_of(head), "replace").strip()] += 1
    count = len(list(islice((name for name in images.files() if names_image(os.fsencode(name))), _LOOKED_AT)))
    few = 2 * len(found) < max(count, len(texts)) or 2 * plain.total() <= len(found)
    if few or column_meaning("", plain).kind != "text":
        return None
    return Evidence("caption-files", f"texts with the names of images ({escape(found[0])})")


def read(look: Look, options: AnnotationOptions) -> ColumnarSource:
    """One sample for each image that has a text file of its name, with a caption per line, `image/caption`.

    The text is next to the image; if none is, in any folder. Raises UsageError if there is no text file.
    """
    files = look.list_files(look.path, chosen=False)
    texts = [i for i, key in enumerate(files) if key.lower().endswith((b".txt", b".caption"))]
    if not texts:
        raise UsageError(look.path, f"no {' or '.join(_ENDS)} file in it", "check the path")
    found = Annotations(look.path, look, options, tasks=("captions",))
    found.unnamed = "image files without a caption"
    images = enumerate(() if options.images else found.listing)
    image_of = {os.path.splitext(key)[0]: i for i, key in images if names_image(key)}
    near = {os.path.dirname(key) for key in map(files.key, texts) if os.path.splitext(key)[0] in image_of}
    texts = [i for i in texts if not is_remark(files.key(i)) and (not near or os.path.dirname(files.key(i)) in near)]
    for i in texts:
        key, path = files.key(i), name_text(files.file(i).path)
        where, beside = escape(key), image_of.get(os.path.splitext(key)[0])
        image = found.image(_stem(path), where=where) if beside is None else found.file(beside, where=where)
        try:
            text = read_whole(path).decode()
        except LabelFileError as error:
            found.leave_out(image, AnnotationCode.LINE, f"{where}: {reason_of(error)}")
            continue
        for line in [line for line in text.splitlines() if line.strip()] or [""]:
            found.caption(image, line, where)
    taken = set(texts)
    if others := [key for i, key in enumerate(files) if i not in taken and not names_image(key)]:
        found.note(counted("files that are neither images nor their captions, not read", others, len(others)))
    return found.source()


def _stem(name: str) -> str:
    return os.path.splitext(os.path.basename(name))[0]
