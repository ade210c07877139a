"""What may be done to an image before it is stored: the words of a report and of `normalised.jsonl`."""

from enum import StrEnum


class Change(StrEnum):
    """One word a change, or an oddity of the source that made one necessary. A word never changes its meaning."""

    GIF = "gif"  # a format that not every loader reads; AVIF to WEBP likewise
    BMP = "bmp"
    TIFF = "tiff"
    WEBP = "webp"
    AVIF = "avif"
    HEIF = "heif"
    JPEG2000 = "jpeg2000"
    PNM = "pnm"
    CMYK = "cmyk"
    RGB_JPEG = "rgb-jpeg"
    PALETTE = "palette"
    BITS_1 = "1-bit"
    BITS_2 = "2-bit"
    BITS_4 = "4-bit"
    BITS_16 = "16-bit"
    ALPHA = "alpha"
    TURNED = "exif-rotated"
    RESIZED = "resized"
    REENCODED = "re-encoded"
    RAW = "raw"
    JPEG = "png-to-jpeg"
    BASELINE = "baseline"
    SEEKABLE = "seekable"


# What only the options ask for; the others are about the source.
ASKED = frozenset({Change.RESIZED, Change.REENCODED, Change.RAW, Change.JPEG, Change.BASELINE, Change.SEEKABLE})
