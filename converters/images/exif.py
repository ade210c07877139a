"""Which way up an image is: the one tag of EXIF that changes what pixels mean.

Decoders that feed training (TensorFlow, DALI, Pillow) do not apply it, so it must be applied when converting. Read here
and not by Pillow, which parses every tag and warns about irrelevant tags. Layout: TIFF 6.0, section 2.
"""

ORIENTATION_TAG = 0x0112
_SHORT, _LONG = 3, 4
_ENTRY_BYTES = 12


def read_orientation(exif: bytes) -> tuple[int, str | None]:
    r"""Orientation 1..8 (1 is upright), and None or a sentence that says why broken EXIF was read as 1.

    `exif` is the TIFF structure, with or without `Exif\0\0` before it. Without the tag the answer is 1, None.
    Never raises.
    """
    exif = exif.removeprefix(b"Exif\0\0")
    if exif[:4] == b"II*\0":
        order = "little"
    elif exif[:4] == b"MM\0*":
        order = "big"
    else:
        return 1, "EXIF has no TIFF header, orientation read as 1"
    at = int.from_bytes(exif[4:8], order)
    count_bytes = exif[at : at + 2]
    count = int.from_bytes(count_bytes, order)
    directory = exif[at + 2 : at + 2 + count * _ENTRY_BYTES]
    for entry in range(0, len(directory) - _ENTRY_BYTES + 1, _ENTRY_BYTES):
        if int.from_bytes(directory[entry : entry + 2], order) == ORIENTATION_TAG:
            kind = int.from_bytes(directory[entry + 2 : entry + 4], order)
            values = int.from_bytes(directory[entry + 4 : entry + 8], order)
            size = {_SHORT: 2, _LONG: 4}.get(kind, 0)
            value = int.from_bytes(directory[entry + 8 : entry + 8 + size], order)
            if values == 1 and 1 <= value <= 8:
                return value, None
            return 1, f"EXIF orientation is {value} (type {kind}, {values} values), read as 1"
    # An empty directory is valid: programs that remove every tag leave it behind.
    if at < 8 or len(count_bytes) < 2 or len(directory) < count * _ENTRY_BYTES:
        return 1, "EXIF is truncated or has invalid offsets, orientation read as 1"
    return 1, None
