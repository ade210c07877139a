"""A large JSON file, element by element, by Python's own decoder: memory holds only a window of it.

Not by ijson, which refuses the NaN that Python's own encoder writes, and does not say at which byte a file breaks.
"""

import codecs
import json
import os
import re
from collections.abc import Iterator
from typing import Any

from shardfeed.converters.sources.files.text import encoding_of, undecodable
from shardfeed.converters.sources.guard import open_regular
from shardfeed.errors import LabelFileError, StorageError

_CHUNK = 1 << 20  # bytes read at a time
_LONGEST = 1 << 25  # bytes of one element: a file of another kind would fill the memory
_SPACE = re.compile(r"[ \t\r\n]*")
_NEAR = 16  # characters before the end of the window: a literal, a number or an escape may be cut there
_BOM = "\ufeff"
_LOOKED_AT = 1 << 12  # bytes before one that cannot be decoded, for a guess of the encoding


class JsonStream:
    """Reads a JSON file forwards, once: `members` yields the keys of its object, `elements` or `value` a value.

        stream = JsonStream("instances.json")
        for key in stream.members():
            for image in stream.elements() if key == "images" else ():
                ...

    Args:
        path: of the file, in the encoding of files/text.py: UTF-8, if nothing says another.
        most: bytes to read; a longer file is treated as ending there.

    Raises LabelFileError, with the byte, if the file is not JSON; StorageError if it cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str], most: int | None = None) -> None:
        self.path = os.fspath(path)
        try:
            self._file = open_regular(path)  # closed with this object, or by `close`
        except OSError as error:
            raise StorageError(self.path, error.strerror or str(error), "check that the file can be read") from None
        self._left = most
        self._decoder: codecs.IncrementalDecoder | None = None
        self._encoding = "utf-8"
        self._decode = json.JSONDecoder().raw_decode
        self._text, self._place, self._base, self._ended = "", 0, 0, False
        if self._next() == _BOM:
            self._place += 1

    def close(self) -> None:
        """No more is read."""
        self._file.close()

    @property
    def offset(self) -> int:
        """Byte offset of the next token, after any blanks."""
        self._next()
        return self._base + self._size(self._text[: self._place])

    def _size(self, text: str) -> int:
        """Bytes of a text in the file."""
        return len(text.encode(self._encoding, "surrogatepass" if self._encoding.startswith("utf") else "replace"))

    def peek(self) -> str:
        """The next character that is no blank; empty at the end."""
        return self._next()

    def members(self) -> Iterator[str]:
        """The names of the members of the object that begins here; values that are not read are skipped."""
        self._expect("{")
        if self._next() == "}":
            self._place += 1
            return
        while True:
            if self._next() != '"':
                raise self._broken("expected a name in quotes")
            key = self.value()
            self._expect(":")
            before = self._base, self._place
            self._next()
            at = self._base, self._place
            yield key
            if (self._base, self._place) in (before, at):
                for _ in self.elements() if self._next() == "[" else [self.value()]:
                    pass
            if self._ends("}"):
                return

    def elements(self) -> Iterator[Any]:
        """The elements of the array that begins here, one after the other."""
        self._expect("[")
        if self._next() == "]":
            self._place += 1
            return
        while True:
            yield self.value()
            if self._ends("]"):
                return

    def value(self) -> Any:
        """The value that begins here, whole."""
        self._next()
        chunk = _CHUNK
        while True:
            try:
                value, end = self._decode(self._text, self._place)
            except json.JSONDecodeError as error:
                # For truncated input the decoder reports an early end, or a string without an end.
                cut = error.pos >= len(self._text) - _NEAR or error.msg.startswith("Unterminated string")
                if self._ended or not cut:
                    raise self._broken(error.msg, error.pos) from None
            except RecursionError:
                raise self._broken("nested too deeply") from None
            except ValueError as error:  # an integer of thousands of digits
                raise self._broken(str(error).partition(";")[0]) from None
            else:
                if end + _NEAR < len(self._text) or self._ended:  # 1.5 may be the beginning of 1.5e3
                    self._place = end
                    return value
            if len(self._text) - self._place > _LONGEST:
                raise self._broken(f"an element of more than {_LONGEST >> 20} MiB, or an unterminated string")
            self._more(chunk)
            chunk *= 2

    def end(self) -> None:
        """Check that the file ends here; raise LabelFileError otherwise."""
        if self._next():
            raise self._broken("extra data after the JSON value")

    def _ends(self, closing: str) -> bool:
        """Whether `closing` comes next, and is passed; else a comma is."""
        char = self._next()
        if not char or char not in (closing, ","):
            raise self._broken(f"expected , or {closing}")
        self._place += 1
        return char == closing

    def _expect(self, char: str) -> None:
        if self._next() != char:
            raise self._broken(f"expected {char}")
        self._place += 1

    def _next(self) -> str:
        """The next character that is no blank, at `_place` now; empty at the end."""
        while True:
            found = _SPACE.match(self._text, self._place)
            self._place = found.end() if found else self._place
            if self._place < len(self._text):
                return self._text[self._place]
            if self._ended:
                return ""
            self._more(_CHUNK)

    def _more(self, size: int) -> None:
        """Discard the consumed bytes, and read more."""
        size = size if self._left is None else min(size, self._left)
        self._base += self._size(self._text[: self._place])
        self._text, self._place = self._text[self._place :], 0
        try:
            data = self._file.read(size)
        except OSError as error:
            raise StorageError(self.path, error.strerror or str(error), "check that the file can be read") from None
        if self._left is not None:
            self._left -= len(data)
        cut = self._left == 0  # a character may be, too
        self._ended = not data or cut
        if self._decoder is None:
            self._encoding = encoding_of(data)
            self._decoder = codecs.getincrementaldecoder(self._encoding)()
        try:
            self._text += self._decoder.decode(data, final=self._ended and not cut)
        except UnicodeDecodeError as error:
            place = f"{self.path}, byte {self._base + self._size(self._text) + error.start}"
            near = error.object[max(0, error.start - _LOOKED_AT) :]
            raise undecodable(near, place, self._encoding) from None

    def _broken(self, problem: str, place: int | None = None) -> LabelFileError:
        place = self._place if place is None else place
        byte = self._base + self._size(self._text[:place])
        got = f", got {self._text[place : place + 20]!r}" if place < len(self._text) else ", the file ends here"
        problem = f"broken JSON: {problem[:1].lower()}{problem[1:]}{got}"
        remedy = "check that the file is complete, or export it again"
        return LabelFileError(f"{self.path}, byte {byte}", problem, remedy)


def elements_of(path: str, key: str) -> Iterator[Any]:
    """The elements of the list under a key of a file's object; all else is skipped."""
    stream = JsonStream(path)
    try:
        for found in stream.members() if stream.peek() == "{" else ():
            if found == key and stream.peek() == "[":
                yield from stream.elements()
                return
    finally:
        stream.close()
