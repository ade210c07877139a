"""Recognise files that are no images by their first bytes, and say what to do about them."""

import re
from typing import NamedTuple

_TAR = b"ustar"
_TAR_AT = 257
_PAGE = re.compile(rb"<(?:!doctype\s+html|html|head|body)[\s>]", re.IGNORECASE)
_DRAWING = re.compile(rb"<(?:\w+:)?svg[\s>/]")


class NoImage(NamedTuple):
    """`what` it is, with its article; `remedy`: what makes an image of it, may be empty. `archive`: may hold images."""

    what: str
    remedy: str = ""
    archive: bool = False

    def __str__(self) -> str:
        return f"{self.what}, not an image" + (f": {self.remedy}" if self.remedy else "")


_UNPACK = "unpack it, and convert the folder"
_FRAMES = "extract its frames as images, with `ffmpeg -i FILE FOLDER/%06d.png` for example"
_BY_START = {
    b"version https://git-lfs.github.com/spec/": NoImage("a git-lfs pointer", "`git lfs pull` fetches the file itself"),
    b"PK\3\4": NoImage("a zip archive", _UNPACK, archive=True),
    b"Rar!\x1a\x07": NoImage("a RAR archive", _UNPACK, archive=True),
    b"7z\xbc\xaf\x27\x1c": NoImage("a 7z archive", _UNPACK, archive=True),
    b"\x1f\x8b\x08": NoImage("compressed with gzip", _UNPACK, archive=True),
    b"BZh": NoImage("compressed with bzip2", _UNPACK, archive=True),
    b"\xfd7zXZ\0": NoImage("compressed with xz", _UNPACK, archive=True),
    b"\x28\xb5\x2f\xfd": NoImage("compressed with zstd", _UNPACK, archive=True),
    b"PAR1": NoImage("a Parquet file", "give it as the only source", archive=True),
    b"ARROW1\0\0": NoImage("an Arrow file", "write a source class to read it", archive=True),
    b"\x89HDF\r\n\x1a\n": NoImage("an HDF5 file", "give it as the only source", archive=True),
    b"SQLite format 3\0": NoImage("an SQLite database", "write a source class to read it", archive=True),
    b"\x93NUMPY": NoImage("a NumPy array", "give it as the only source", archive=True),
    b"%PDF-": NoImage("a PDF", "draw its pages as PNG"),
    b"%!PS": NoImage("PostScript", "draw it as PNG"),
    b"OggS": NoImage("Ogg audio or video"),
    b"fLaC": NoImage("FLAC audio"),
    b"ID3": NoImage("MP3 audio"),
    b"\x1aE\xdf\xa3": NoImage("Matroska or WebM video", _FRAMES),
    b"\0\0\1\xba": NoImage("MPEG video", _FRAMES),
}
_BY_RIFF = {b"WAVE": NoImage("WAV audio"), b"AVI ": NoImage("AVI video", _FRAMES)}
_BOXES = (b"ftyp", b"moov", b"mdat")  # that a file of ISO/IEC 14496-12 or QuickTime may begin with
_DICOM, _DICOM_AT = b"DICM", 128


def recognise_file(head: bytes) -> NoImage | None:
    """Recognise a file that is no image by its first bytes, `head`; None if it is of no kind known here."""
    for start, found in _BY_START.items():
        if head.startswith(start):
            return found
    if head.startswith(b"RIFF"):
        return _BY_RIFF.get(head[8:12])
    if head.startswith(_TAR, _TAR_AT):
        return NoImage("a tar archive", _UNPACK, archive=True)
    if head.startswith(_DICOM, _DICOM_AT):
        return NoImage("a DICOM file", "draw it as PNG with a suitable window, by `dcm2img` or pydicom")
    if head[4:8] in _BOXES:
        return NoImage("MP4 audio") if head[8:11] == b"M4A" else NoImage("MP4 or QuickTime video", _FRAMES)
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"<"):
        # A page may have drawings in it, a drawing no page.
        if _DRAWING.search(text) and not _PAGE.match(text):
            return NoImage("an SVG drawing", "draw it as PNG, with `rsvg-convert` for example")
        if _PAGE.search(text):
            return NoImage("an HTML page", "its download may have failed: download it again")
        if text.startswith(b"<?xml"):
            return NoImage("an XML file")
    return None
