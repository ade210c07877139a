"""Search for secrets in files and command lines, plain or encoded, for tests."""

import base64
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

_WHOLE_BYTES = 1 << 30  # of a file that is read


class Scan:
    """A search for secrets. `searched`: paths and command lines; `found`: pairs of where, and which secret.

    A secret is found in any encoding that leaves its letters and digits as they are (of URLs, JSON, XML), and as base64
    of a text that it is in, hexadecimal digits and UTF-16.
    """

    def __init__(self, secrets: dict[str, str]) -> None:
        forms = {form: name for name, secret in secrets.items() for form in _forms(secret)}
        self._forms, self._pattern = forms, re.compile(b"|".join(map(re.escape, forms)))
        self.searched: set[str] = set()
        self.found: set[tuple[str, str]] = set()

    def search(self, where: str, content: bytes) -> None:
        """Search some bytes."""
        self.searched.add(where)
        self.found |= {(where, self._forms[form]) for form in self._pattern.findall(content)}

    def files(self, folders: Iterable[Path]) -> None:
        """Search all files below folders, and their names."""
        for folder in folders:
            for place, names, files in os.walk(folder):
                self.search(place, "\n".join(names + files).encode("utf-8", "surrogateescape"))
                for name in files:
                    path = Path(place, name)
                    try:
                        if path.is_symlink():
                            self.search(str(path), os.fsencode(os.readlink(path)))
                        elif path.is_file():  # no socket
                            assert path.stat().st_size < _WHOLE_BYTES
                            self.search(str(path), path.read_bytes())
                    except FileNotFoundError:
                        pass  # removed meanwhile

    def commands(self) -> None:
        """Search the command lines of all processes."""
        for process in Path("/proc").iterdir():
            if process.name.isdecimal():
                try:
                    line = (process / "cmdline").read_bytes()
                except OSError:
                    continue  # it has ended
                self.search(line.replace(b"\0", b" ").decode(errors="replace"), line)


def _forms(secret: str) -> Iterator[bytes]:
    yield secret.encode()
    for piece in re.findall(r"\w{12,}", secret):
        yield piece.encode()
        yield piece.encode("utf-16-le")
        yield piece.encode().hex().encode()
    for alphabet in (b"+/", b"-_"):
        for before in range(3):  # bytes of the group of three in which it begins
            encoded = base64.b64encode(b"\0" * before + secret.encode(), alphabet)
            yield encoded[(0, 2, 3)[before] : (before + len(secret.encode())) // 3 * 4]
