"""How large an image may be: found in its header, refused before anything of that size is allocated."""

from shardfeed.converters.rejects import RejectCode, RejectedError

# 2**29 bytes of RGB: the most that TensorFlow's JPEG decoder takes, and where Pillow by default stops, too.
MAX_PIXELS = (1 << 29) // 3
MAX_FILE_BYTES = 1 << 30  # a record must stay well below protobuf's 2 GiB
MAX_METADATA_BYTES = 16 << 20  # the largest ICC profile that a JPEG can hold takes this; nothing sane takes more


def check_size(height: int, width: int, max_pixels: int) -> None:
    """Raises RejectedError (`E_TOO_LARGE`) when `height` x `width` is more than `max_pixels`."""
    if height * width > max_pixels:
        raise RejectedError(RejectCode.TOO_LARGE, f"{height} x {width} pixels, more than {max_pixels}")


def check_metadata(kind: str, size: int) -> None:
    """Raises RejectedError (`E_TOO_LARGE`) when `size` bytes of metadata are more than MAX_METADATA_BYTES."""
    if size > MAX_METADATA_BYTES:
        raise RejectedError(RejectCode.TOO_LARGE, f"{kind} has more than {MAX_METADATA_BYTES} bytes of metadata")
