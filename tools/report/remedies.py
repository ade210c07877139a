"""Commands that fix findings, and their lists of images."""

import csv
import io
import os
from collections.abc import Mapping, Sequence

import numpy as np

from shardfeed.errors import without_secrets
from shardfeed.storage.address import is_address
from shardfeed.text import shell_quoted
from shardfeed.tools.report.findings import Finding
from shardfeed.tools.report.thumbnails import Thumbnails

_ALL = "all"  # code of the list that joins other lists


class Remedies:
    """Commands that fix findings. `lists`: content of their input files, by path.

    `typed`: the dataset as typed by the user. `folder`: the folder of the lists. `broken`: number of damaged records.
    """

    def __init__(self, typed: str, folder: str, pictures: Thumbnails, broken: int) -> None:
        # Operations read local disks: for a remote dataset, the command names the copy to make first.
        local = (
            os.path.basename(without_secrets(typed.rstrip("/"))) if is_address(typed) else typed.rstrip("/") or typed
        )
        self._dataset, self._folder, self._pictures = local, folder, pictures
        self._more = f" --max-bad {broken}" if broken else ""  # damaged records that are not removed
        self.lists: dict[str, bytes] = {}

    def command(self, finding: Finding) -> tuple[str, int]:
        """Return the command line, "" if there is none, and the number of images that no list can name."""
        if finding.remedy == "relabel":
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(finding.table)
            path = self._list(f"{finding.code}.csv", text.getvalue().encode())
            return self._line("relabel", finding.code, "--map", path), 0
        if finding.remedy == "remove" and len(finding.images):
            return self._removal(finding.code, finding.images.tolist())
        return "", 0

    def everything(self, findings: Sequence[Finding]) -> str:
        """The command that removes the images of all findings of high and medium harm; "" for fewer than two."""
        chosen = [finding.images for finding in findings if finding.remedy == "remove" and finding.harm != "low"]
        return self._removal(_ALL, np.unique(np.concatenate(chosen)).tolist())[0] if len(chosen) > 1 else ""

    def split_anew(self, findings: Sequence[Finding], shares: Mapping[str, float]) -> str:
        """The command for new splits that keep duplicates and near-duplicates together; "" if there are none."""
        if not any(finding.code == "equal-across-splits" for finding in findings) or len(shares) < 2:
            return ""
        divided = ",".join(f"{name}={share:g}" for name, share in shares.items())
        return self._line("split", "divided", "--split", divided, "--group-duplicates")

    def _removal(self, code: str, places: Sequence[int]) -> tuple[str, int]:
        keys = [self._pictures.key(place) for place in places]
        fit = [key for key in dict.fromkeys(keys) if key and not {*b"\r\n"} & {*key}]  # one line of a list each
        if not fit:
            return "", len(keys)
        path = self._list(f"{code}.txt", b"".join(key + b"\n" for key in fit))
        line = self._line("remove", "mended" if code == _ALL else f"without-{code}", "--keys", path)
        return line, len(keys) - len(fit)

    def _list(self, name: str, content: bytes) -> str:
        path = os.path.join(self._folder, name)
        self.lists[path] = content
        return path

    def _line(self, command: str, ending: str, flag: str, value: str, *more: str) -> str:
        old, new, given = map(shell_quoted, (self._dataset, f"{self._dataset}-{ending}", value))
        return f"shardfeed {command} {' '.join([old, new, flag, given, *more])}{self._more}"
