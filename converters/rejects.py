"""Codes for the reasons why inputs are left out. They are stable, so that scripts and tests may rely on them.

The codes are part of the format of `rejected.jsonl`; the sentences next to them are not.
"""

from enum import StrEnum


class RejectCode(StrEnum):
    """The reason why an input is left out. A code never changes its meaning; new codes may be added.

    Example:
        done = convert("photos", "out", max_bad="1%")
        cut = [noted.key for noted in done.rejected if noted.what == RejectCode.TRUNCATED]
    """

    NOT_IMAGE = "E_NOT_IMAGE"  # no image format recognised by content
    EMPTY = "E_EMPTY"  # zero bytes
    TRUNCATED = "E_TRUNCATED"  # ends before its image data does, or has no end marker
    CORRUPT = "E_CORRUPT"  # recognised, but the decoder refuses or warns
    TOO_LARGE = "E_TOO_LARGE"  # more pixels, frames, metadata or bytes than allowed, found before allocating
    UNSUPPORTED = "E_UNSUPPORTED"  # an image format or variant that is known and not handled
    ANIMATED = "E_ANIMATED"  # more than one frame, where choosing one would be a guess
    UNREADABLE = "E_UNREADABLE"  # the system or a server refused; the errno or the status is in the reason
    NOT_REGULAR = "E_NOT_REGULAR"  # a FIFO, device, socket or directory where a file was expected
    MISSING = "E_MISSING"  # named by a label file, but missing
    NO_LABEL = "E_NO_LABEL"  # there, not named by the label file, or the name carries no label
    PATH_ESCAPE = "E_PATH_ESCAPE"  # leaves the source's root
    SOURCE_CHANGED = "E_SOURCE_CHANGED"  # not the file that was listed: size, mtime or ETag differ
    FRAME = "E_FRAME"  # unknown whether annotations refer to the stored image or the upright one
    PAIR = "E_PAIR"  # an image without a mask, or a mask without an image
    MASK_SIZE = "E_MASK_SIZE"  # the mask has neither the image's size as its file has it nor the upright one
    MASK_VALUE = "E_MASK_VALUE"  # the mask has a value that is no class and not void
    MASK_LOSSY = "E_MASK_LOSSY"  # the mask is of a lossy format, or has a color that no class has
    DAMAGED = "E_DAMAGED"  # a record of the dataset that is converted is not as it was written
    SOURCE_ERROR = "E_SOURCE_ERROR"  # the source's own callable raised
    DECODER_CRASH = "E_DECODER_CRASH"  # killed its worker each time
    DECODE_TIMEOUT = "E_DECODE_TIMEOUT"  # took longer than the limit


class RejectedError(Exception):
    """Raised to leave out and report an input: `code` is its code, `reason` an explanation."""

    def __init__(self, code: RejectCode, reason: str) -> None:
        super().__init__(code, reason)
        self.code, self.reason = code, reason

    def __str__(self) -> str:
        return f"{self.code.value}: {self.reason}"


# 2**29 bytes of RGB: the most that TensorFlow's JPEG decoder takes, and where Pillow by default stops, too.
MAX_PIXELS = (1 << 29) // 3
MAX_FILE_BYTES = 1 << 30  # a record must stay well below protobuf's 2 GiB
MAX_METADATA_BYTES = 16 << 20  # the largest ICC profile that a JPEG can hold takes this; nothing sane takes more


def check_size(height: int, width: int, max_pixels: int) -> None:
    """Raise RejectedError (`E_TOO_LARGE`) if `height` x `width` is more than `max_pixels`."""
    if height * width > max_pixels:
        raise RejectedError(RejectCode.TOO_LARGE, f"{height} x {width} pixels, more than {max_pixels}")


def check_bytes(size: int, max_bytes: int) -> None:
    """Raise RejectedError (`E_TOO_LARGE`) if `size` bytes of a file are more than `max_bytes`."""
    if size > max_bytes:
        raise RejectedError(RejectCode.TOO_LARGE, f"{size} bytes, more than {max_bytes}")


def check_metadata(kind: str, size: int) -> None:
    """Raise RejectedError (`E_TOO_LARGE`) if `size` bytes of metadata are more than MAX_METADATA_BYTES."""
    if size > MAX_METADATA_BYTES:
        raise RejectedError(RejectCode.TOO_LARGE, f"{kind} has more than {MAX_METADATA_BYTES} bytes of metadata")
