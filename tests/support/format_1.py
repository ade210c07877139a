"""The dataset of format 1. Its records hold the images of data_samples/shapes, which are the dictionary of its archive.

It was made, when its files lay in tests/golden/format1, by `python tests/support/format_1.py`.
"""

import io
import tarfile
from pathlib import Path

import zstandard

from repository import GOLDEN, ROOT
from trees import extract_all

ARCHIVE = GOLDEN / "format1.tar.zst"


def dictionary() -> zstandard.ZstdCompressionDict:
    """The bytes of all images, in the order of their names."""
    images = sorted((ROOT / "data_samples" / "shapes").rglob("*.jpg"))
    whole = b"".join(image.read_bytes() for image in images)
    return zstandard.ZstdCompressionDict(whole, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


def unpack(folder: Path) -> Path:
    """Make the dataset `format1` in a folder."""
    data = zstandard.ZstdDecompressor(dict_data=dictionary()).decompress(ARCHIVE.read_bytes())
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        extract_all(archive, folder)
    return folder / "format1"


def pack() -> None:
    """Make the archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.add(GOLDEN / "format1", "format1")
    parameters = zstandard.ZstdCompressionParameters.from_level(19, window_log=21)
    compressor = zstandard.ZstdCompressor(dict_data=dictionary(), compression_params=parameters)
    ARCHIVE.write_bytes(compressor.compress(out.getvalue()))


if __name__ == "__main__":
    pack()
