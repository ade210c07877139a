"""The encoding of what is text in a source: names in archives, documents, tables, lists, lines. One rule, here.

A byte order mark says it; else the declaration of XML; else the option `encoding`; else it is UTF-8. Text that can
only be UTF-8 is read as UTF-8 in spite of the option: archives of Windows have names in a local encoding, and JSON in
UTF-8.
"""

import codecs
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from shardfeed.errors import LabelFileError, UsageError, argument, escape, name_bytes

# UTF-32's little-endian mark begins with UTF-16's.
MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
# Encodings in which programs write more characters than their standard has.
_WIDER = {"gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "big5": "big5hkscs"}
_DECLARED = re.compile(rb"""\s*<\?xml[^>]{0,200}?\bencoding\s*=\s*["']([A-Za-z0-9._:-]{1,40})["']""")
# Two bytes may be a character of UTF-8 by chance: those of one Chinese character in GBK often are.
_THREE_BYTES = re.compile(rb"[\xe0-\xf4][\x80-\xbf]{2}")
_KANA, _HANGUL, _CYRILLIC = (
    re.compile(f"[{letters}]") for letters in ("\u3041-\u30fe", "\uac00-\ud7a3", "\u0410-\u044f")
)
# What a text in an encoding has to consist of for a guess; in this order.
_GUESSES = (
    ("shift_jis", _KANA, 0.2),
    ("gb2312", re.compile("[\u4e00-\u9fff\u3000-\u303f\uff00-\uffef]"), 1.0),
    ("euc_kr", _HANGUL, 0.5),
    ("shift_jis", re.compile("[\u4e00-\u9fff\u3000-\u30ff]"), 1.0),
    ("big5", re.compile("[\u4e00-\u9fff\u3000-\u303f\uff00-\uffef]"), 0.9),
    ("gbk", re.compile("[\u4e00-\u9fff\u3000-\u303f\uff00-\uffef]"), 0.9),
    ("cp1251", _CYRILLIC, 0.9),
    ("cp866", _CYRILLIC, 0.9),
    ("cp1252", re.compile("[\u00bf-\u00ff\u0152\u0153\u2013-\u2026]"), 0.9),
    ("cp437", re.compile("[\u00bf-\u00ff]"), 0.9),
)
_TYPED = {"gb2312": "gbk"}  # which has all of it, and is what users know
_HIGH = re.compile(rb"[\x80-\xff]+")
_NOT_OF_FILES = ("utf-7", "unicode_escape", "raw_unicode_escape", "unicode-escape", "raw-unicode-escape", "idna")
_SHOWN = 40  # characters of a text, in a message
_LOOKED_AT = 1 << 16  # bytes of a text that a guess is made from


@dataclass
class _Asked:
    """Encoding that the option names, and whether any text was read in it."""

    encoding: str
    used: bool = False
    of_names: bool = False  # whether names on the disk are in it


_asked: ContextVar[_Asked | None] = ContextVar("encoding", default=None)


@contextmanager
def asking(encoding: str | None) -> Iterator[None]:
    """A block in which texts without a mark are in this encoding; None: as in the block around it.

    Raises UsageError for an encoding that Python does not know, and for one that no text was read in.
    """
    check_encoding(encoding)
    if encoding is None or _asked.get() is not None:
        yield
        return
    asked = _Asked(encoding)
    token = _asked.set(asked)
    try:
        yield
    finally:
        _asked.reset(token)
    if not asked.used:
        problem = f"got {encoding!r}, but the source has no text that is read"
        raise UsageError("encoding", problem, "leave it out")


def asked_encoding() -> str | None:
    """The encoding that was asked for, of the source that is being opened; now it counts as used."""
    asked = _asked.get()
    if asked is None:
        return None
    asked.used = True
    return asked.encoding


def check_encoding(encoding: str | None) -> None:
    """Check that Python knows a text encoding of this name; raise UsageError otherwise."""
    if encoding is None:
        return
    try:
        b"a".decode(encoding)
    except UnicodeError:
        return  # not one of its texts, but known
    except (LookupError, ValueError):  # the latter for a NUL
        remedy = "common ones are latin-1, cp1252, utf-16, gbk and shift_jis"
        raise UsageError("encoding", f"got {encoding!r}, expected a text encoding", remedy) from None


def is_surely_utf8(data: bytes) -> bool:
    """Whether text, or the beginning of one, is UTF-8 with a character of three bytes or more."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return _THREE_BYTES.search(data) is not None


def encoding_of(data: bytes, asked: str | None = None) -> str:
    """The encoding of a text, by its beginning: its mark, the zero bytes of UTF-16 and UTF-32, the option, UTF-8.

    `asked`: the option, if not that of the source. A mark is decoded as the character U+FEFF.
    """
    of_source = _encoding_for(data)
    asked = asked or of_source
    marked = next((name for mark, name in MARKS.items() if data.startswith(mark)), "")
    if asked is None:
        return marked or _with_zeros(data) or "utf-8"
    return marked or ("utf-8" if is_surely_utf8(data[:_LOOKED_AT]) else _codec(asked))


def _encoding_for(data: bytes) -> str | None:
    """The encoding asked for, which counts as used; None for text in ASCII alone, if it is UTF-16 or UTF-32.

    Of several files some may be in ASCII, such as the numbers beside names in UTF-16.
    """
    asked = _asked.get()
    if asked is None or (_is_wide(_codec(asked.encoding)) and data.isascii() and b"\0" not in data):
        return None
    return asked_encoding()


def _is_wide(codec: str) -> bool:
    return codec.startswith(("utf-16", "utf-32"))


def _codec(name: str) -> str:
    """The codec for an encoding of this name. Raises LookupError."""
    known = codecs.lookup(name).name
    if known in ("utf-16", "utf-32"):  # which expect a mark in the order of this machine
        return f"{known}-le"
    return _WIDER.get(known, known)


def _with_zeros(data: bytes) -> str:
    """UTF-16 or UTF-32 without a mark, by the zero bytes of its first character, which is of ASCII; "" for others."""
    zeros = tuple(byte == 0 for byte in data[:4])
    forms: dict[tuple[bool, ...], str] = {
        (False, True, False, True): "utf-16-le",
        (True, False, True, False): "utf-16-be",
        (False, True, True, True): "utf-32-le",
        (True, True, True, False): "utf-32-be",
    }
    return forms.get(zeros, "")


def decoded(data: bytes, place: str, asked: str | None = None) -> str:
    """The text of a whole file, without a byte order mark. Raises LabelFileError, which names an encoding that fits."""
    encoding = encoding_of(data, asked)
    try:
        return data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise undecodable(data, place, encoding) from None


def undecodable(data: bytes, place: str, encoding: str) -> LabelFileError:
    """The error for a text that is in another encoding than `encoding`."""
    what = "UTF-8" if encoding == "utf-8" else f"text in {asked_encoding() or encoding}"
    return LabelFileError(place, *problem_of(data, f"not {what}"))


def problem_of(data: bytes, problem: str) -> tuple[str, str]:
    """A problem with the encoding of `data`, and the remedy, with an encoding that was tried and decodes it."""
    guesses = guessed(data)
    encoding = next(iter(guesses))
    remedy = f"save it as UTF-8, or give {argument('encoding', encoding)}, or another encoding"
    return f"{problem}; {_shown(guesses)}", remedy


def _shown(guesses: dict[str, str]) -> str:
    """Words of a text in the first encodings: `as gbk it has '...', as euc_kr '...'`."""
    (first, text), *others = guesses.items()
    more = [f", as {encoding} '{escape(other)}'" for encoding, other in others[:1]]
    return "".join([f"as {first} it has '{escape(text)}'", *more])


def guessed(data: bytes) -> dict[str, str]:
    """Encodings that decode `data`, the likeliest first, with a word of each that is not ASCII; else latin-1."""
    zeros = _with_zeros(data)
    if zeros and (text := _read_as(zeros, data)):
        return {zeros: _sample(text)}
    single = _single_byte(data)
    found: dict[str, str] = {}
    for encoding, letters, share in _GUESSES:
        text = _read_as(encoding, data)
        others = [char for char in text if char > "\x7f"]
        if others and len(letters.findall("".join(others))) >= share * len(others):
            found.setdefault(_TYPED.get(encoding, encoding), _sample(text))
    if single and (text := _read_as(single, data)):
        return {single: _sample(text)} | found
    return found or {"latin-1": _sample(_read_as("latin-1", data))}


def _single_byte(data: bytes) -> str:
    """cp1252 or cp437, if bytes beyond ASCII are letters among letters of ASCII: no character of two bytes is."""
    high = _HIGH.findall(data[:_LOOKED_AT])
    alone = [one for one in high if len(one) == 1]
    if len(alone) < 0.8 * len(high) or not alone:
        return ""
    of_dos = sum(0x80 <= one[0] <= 0xA5 for one in alone)
    return "cp437" if of_dos > len(alone) / 2 else "cp1252"


def _read_as(encoding: str, data: bytes) -> str:
    """The beginning of a text in an encoding; "" if it is in another."""
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return ""
    return codecs.getincrementaldecoder(encoding)().decode(data[:_LOOKED_AT])


def _sample(text: str) -> str:
    """The first words of a text that are not ASCII, or its beginning."""
    found = re.search(r"[\w.-]*[^\W\x00-\x7f][\w.-]*", text)
    return (found[0] if found else text.strip())[:_SHOWN]


def as_utf8(data: bytes, place: str) -> bytes:
    """The bytes of a whole text file as UTF-8, without a byte order mark. Raises LabelFileError."""
    if data.isascii() and b"\0" not in data[:4] and _asked.get() is None:
        return data
    return decoded(data, place).encode("utf-8", "surrogatepass")


def lines_as_utf8(data: bytes, place: str) -> bytes:
    """As `as_utf8`, but without mark and option the bytes as they are. Raises LabelFileError."""
    if _asked.get() is None and encoding_of(data) == "utf-8":
        return data.removeprefix(codecs.BOM_UTF8)
    return as_utf8(data, place)


def declared_text(data: bytes, place: str) -> str:
    """The text of an XML file, in the encoding that it declares. Raises LabelFileError."""
    of_source = _encoding_for(data)
    declaration = _DECLARED.match(data[:400])
    if declaration is None or is_surely_utf8(data):
        return decoded(data, place)
    name = declaration[1].decode("ascii")
    codec = _codec_of_xml(name)
    problem = f"declares the encoding '{escape(name)}', " + ("and is in another" if codec else "which is unknown")
    try:
        if codec:
            return data.decode(codec)
    except UnicodeDecodeError:
        pass
    if of_source is None:
        raise LabelFileError(place, *problem_of(data, problem))
    return decoded(data, place)


def _codec_of_xml(name: str) -> str:
    """The codec for an encoding that XML may declare; "" for others."""
    try:
        known = _codec(name)
    except LookupError:
        return ""
    return "" if known in _NOT_OF_FILES else known


def head_as_utf8(head: bytes) -> bytes:
    """The beginning of a file: of text in UTF-16 or UTF-32 as UTF-8, of any other file as it is."""
    encoding = next((name for mark, name in MARKS.items() if head.startswith(mark)), "") or _asked_wide(head)
    if not encoding or encoding == "utf-8":
        return head
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return head
    return text.removeprefix("\ufeff").encode("utf-8", "replace")


def _asked_wide(head: bytes) -> str:
    """UTF-16 or UTF-32, if the head has the zero bytes of such a text, of JSON, XML, or of the kind asked for."""
    asked = _asked.get()
    is_asked = asked is not None and _is_wide(_codec(asked.encoding))
    is_document = head[:4].strip(b"\0")[:1] in (b"{", b"[", b"<")
    return _with_zeros(head) if is_asked or is_document else ""


def utf8_name(name: bytes, place: str) -> bytes:
    """A name without a mark as UTF-8, if an encoding was asked for. Raises UsageError if it is in another."""
    asked = None if name.isascii() else asked_encoding()
    if asked is None or is_surely_utf8(name):
        return name
    try:
        return name.decode(_codec(asked)).encode()
    except UnicodeDecodeError:
        raise foreign_names([name], place, f"has names that are not {asked}") from None


def foreign_names(names: Iterable[bytes], place: str, problem: str) -> UsageError:
    """The error for names in an encoding that is unknown."""
    guesses = guessed(b"\n".join(names))
    remedy = f"give {argument('encoding', next(iter(guesses)))} if that is right, or another encoding"
    return UsageError(place, f"{problem}: {_shown(guesses)}", remedy)


def is_utf8(data: bytes) -> bool:
    """Whether bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def look_at_names(names: Iterable[bytes]) -> None:
    """Take the names of folders as in the encoding asked for, if they are not all UTF-8."""
    asked = _asked.get()
    if asked is not None and not all(map(is_utf8, names)):
        asked.used = asked.of_names = True


def document_refused(head: bytes, path: str) -> LabelFileError | None:
    """The error for a document by its beginning, as `Look.head` has it, if that is in an encoding that is unknown."""
    encoding = "utf-8" if _asked.get() is None else encoding_of(head)
    try:
        codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return undecodable(head, path, encoding)
    return None


def name_as_text(name: bytes) -> str | None:
    """The text of a file's name on a disk, in UTF-8 or the encoding asked for; None if it is in another."""
    asked = _asked.get()
    encoding = "utf-8" if asked is None or not asked.of_names else _codec(asked.encoding)
    try:
        return name.decode(encoding)
    except UnicodeDecodeError:
        return None


def encoding_remedy(value: str) -> str:
    """The remedy for a text that has bytes of another encoding, as lone surrogates."""
    guesses = guessed(name_bytes(value))
    encoding, text = next(iter(guesses.items()))
    return f"give {argument('encoding', encoding)} if it is '{escape(text)}', or another encoding"
