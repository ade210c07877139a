"""Codes for the reasons why inputs and annotations are left out, and the account of annotations.

Codes are stable, so that scripts and tests may rely on them. They are part of the format of `rejected.jsonl` and
`left_out.jsonl`; the sentences next to them are not. Each annotation that was read is either written, or listed with a
code; otherwise `Account.check` raises an error.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from shardfeed.errors import IntegrityError, printable, spell_out


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
    SOURCE_ERROR = "E_SOURCE_ERROR"  # the source's own code raised, or returned no sample
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


class AnnotationCode(StrEnum):
    """The reason why an annotation is not written. A code never changes its meaning; new codes may be added.

    Example:
        done = convert(open_source("instances.json", options=AnnotationOptions(images="photos")), "out")
        unnamed = [left for left in done.account.left_out if left.code == AnnotationCode.CATEGORY]
    """

    BOX_OUTSIDE = "E_BOX_OUTSIDE"  # leaves the image by more than a pixel and 1 % of its side
    BOX_EMPTY = "E_BOX_EMPTY"  # has no area, or no numbers
    CATEGORY = "E_CATEGORY"  # of a class that is not listed
    ORPHAN = "E_ORPHAN"  # of an image that is not listed
    TWICE = "E_TWICE"  # there already, the same in everything
    KEYPOINTS = "E_KEYPOINTS"  # not as many as there are names, or outside the image
    OUTLINE = "E_OUTLINE"  # no polygon and no run-length code of its image's size
    VALUE = "E_VALUE"  # a number that is impossible for its field
    LINE = "E_LINE"  # a line or an entry that cannot be read
    IMAGE = "E_IMAGE"  # its image was left out
    CUT_OFF = "E_CUT_OFF"  # in the part of the image that --size cuts off


# Codes that do not count as bad: the image is already counted, it was requested, or nothing is lost.
FORGIVEN = frozenset({AnnotationCode.IMAGE, AnnotationCode.CUT_OFF, AnnotationCode.TWICE})


class BadAnnotationError(Exception):
    """Raised to leave out and list an annotation: `code` is its code, `reason` an explanation."""

    def __init__(self, code: AnnotationCode, reason: str) -> None:
        super().__init__(code, reason)
        self.code, self.reason = code, reason


@dataclass(frozen=True)
class LeftOut:
    """An annotation that is not written: the key of its image, a code of AnnotationCode, and which one and why."""

    key: bytes
    code: str
    reason: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", printable(spell_out(self.reason)))


@dataclass(frozen=True)
class Account:
    """Counts of annotations: read, written, clipped among the written; and the list of those left out.

    `farthest`: the most pixels by which a clipped annotation left its image.
    `clips`: images with clipped annotations, each with the number of these and how far they leave it.
    """

    read: int = 0
    written: int = 0
    clipped: int = 0
    farthest: float = 0.0
    left_out: tuple[LeftOut, ...] = ()
    clips: tuple[LeftOut, ...] = ()

    def __add__(self, other: "Account") -> "Account":
        return Account.total((self, other))

    @classmethod
    def total(cls, accounts: Iterable["Account"]) -> "Account":
        """Add up accounts; annotations left out are listed in the order of the accounts."""
        read = written = clipped = 0
        farthest, left_out, clips = 0.0, [], []
        for account in accounts:
            read, written, clipped = read + account.read, written + account.written, clipped + account.clipped
            farthest = max(farthest, account.farthest)
            left_out += account.left_out
            clips += account.clips
        return cls(read, written, clipped, farthest, tuple(left_out), tuple(clips))

    @property
    def bad(self) -> list[LeftOut]:
        """Annotations left out with a code that is not in FORGIVEN."""
        return [one for one in self.left_out if one.code not in FORGIVEN]

    def check(self, place: str) -> None:
        """Raise IntegrityError unless all annotations that were read are written or listed."""
        if self.read != self.written + len(self.left_out):
            problem = f"{self.read:,} annotations read, {self.written:,} written and {len(self.left_out):,} listed"
            raise IntegrityError(place, problem, "this is a bug in shardfeed: please report it")

    def to_json(self) -> dict[str, Any]:
        """A JSON value for scripts: counts, and how many were left out by code."""
        return {
            "read": self.read,
            "written": self.written,
            "clipped": self.clipped,
            "clipped_by_px": round(self.farthest, 3),
            "left_out": dict(sorted(Counter(one.code for one in self.left_out).items())),
        }


NOTHING = Account()
