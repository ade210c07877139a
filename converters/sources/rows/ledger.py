"""What a reader cannot use, listed with codes; and names for the sentences of the report."""

from shardfeed.converters.rejects import RejectCode
from shardfeed.converters.sources.account import Account, AnnotationCode, LeftOut
from shardfeed.converters.sources.source import Findings, Skipped
from shardfeed.text import counted


class Names:
    """Names for a sentence of the report: how many there were, and the first few."""

    def __init__(self, what: str) -> None:
        self.what, self.count = what, 0
        self._first: list[bytes | str] = []

    def add(self, name: bytes | str) -> None:
        """Count one."""
        self.count += 1
        if len(self._first) < 4:  # three are shown, and that there are more
            self._first.append(name)

    @property
    def note(self) -> list[str]:
        """The sentence; nothing without a name."""
        return [counted(self.what, self._first, self.count)] if self.count else []


class Ledger:
    """Annotations that are left out, with a code; images that cannot be offered; and sentences for the report."""

    def __init__(self) -> None:
        self.left_out: list[LeftOut] = []
        self.rejected: dict[bytes, Skipped] = {}
        self.notes: list[str] = []

    def leave_out(self, key: bytes, code: AnnotationCode, reason: str) -> None:
        """List an annotation of the image `key`, or of the file of that name."""
        self.left_out.append(LeftOut(key, code.value, reason))

    def reject(self, key: bytes, code: RejectCode, reason: str) -> None:
        """List an image."""
        self.rejected.setdefault(key, Skipped(key, code.value, reason))

    def findings(self, folder: bytes | None = None) -> Findings:
        """All of it; `folder`: one of which the source takes whatever lies in it."""
        account = Account(read=len(self.left_out), left_out=tuple(self.left_out))
        return Findings([self.rejected[key] for key in sorted(self.rejected)], self.notes, folder, account)
