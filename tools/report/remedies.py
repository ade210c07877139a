"""Commands that fix findings, and their lists of images."""

import csv
import io
import os
from collections.abc import Sequence

import numpy as np

from shardfeed.errors import without_secrets
from shardfeed.storage.address import is_address
from shardfeed.text import shell_quoted
from shardfeed.tools.report.findings import Finding
from shardfeed.tools.report.measured import Measured


class Remedies:
    """Commands that fix findings. `lists`: content of their input files, by path.

    `typed`: the dataset as typed by the user. `folder`: the folder of the lists.
    """

    def __init__(self, measured: Measured, typed: str, folder: str) -> None:
        self._measured, self._folder = measured, folder
        self._dataset = typed.rstrip("/") or typed
        if is_address(typed):  # operations read local disks: the command names the copy to make first
            self._dataset = os.path.basename(without_secrets(self._dataset))
        self.lists: dict[str, bytes] = {}

    def command(self, finding: Finding) -> tuple[str, int]:
        """Return the command line, "" if there is none, and the number of images that no list can name."""
        if finding.remedy == "relabel":
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows(finding.table)
            return self._line("relabel", finding.code, "--map", f"{finding.code}.csv", text.getvalue().encode()), 0
        return self._removal(finding.code, f"without-{finding.code}", finding.images)

    def of_several(self, findings: Sequence[Finding]) -> dict[str, str]:
        """Commands for several findings at once, by what they do."""
        found = {}
        chosen = [finding.images for finding in findings if finding.remedy == "remove" and finding.harm != "low"]
        if len(chosen) > 1:
            removed, _ = self._removal("all", "mended", np.unique(np.concatenate(chosen)))
            found["All removals of high and medium harm at once"] = removed
        if any(finding.code == "equal-across-splits" for finding in findings):
            sizes = {name: part.stop - part.start for name, part in self._measured.splits.items()}
            shares = {name: max(1, round(100 * size / sum(sizes.values()))) for name, size in sizes.items() if size}
            shares[max(shares, key=shares.__getitem__)] += 100 - sum(shares.values())
            divided = ",".join(f"{name}={share / 100:g}" for name, share in shares.items())
            line = self._line("split", "divided", "--split", divided, more=" --group-duplicates")
            found["Or other splits, of about the same shares, in which equal images stay together"] = line
        return found

    def _removal(self, code: str, ending: str, images: np.ndarray) -> tuple[str, int]:
        keys = self._measured.keys[images].tolist()
        fit = [key for key in dict.fromkeys(keys) if key and not {*b"\r\n"} & {*key}]  # one line of a list each
        content = b"".join(key + b"\n" for key in fit)
        line = self._line("remove", ending, "--keys", f"{code}.txt", content) if fit else ""
        return line, len(keys) - len(fit)

    def _line(self, command: str, ending: str, flag: str, value: str, content: bytes = b"", more: str = "") -> str:
        """The command line; with `content`, `value` is the name of a list."""
        if content:
            value = os.path.join(self._folder, value)
            self.lists[value] = content
        broken = int((~self._measured.decoded).sum())  # damaged records that are not removed
        more += f" --max-bad {broken}" if broken else ""
        old, new, given = map(shell_quoted, (self._dataset, f"{self._dataset}-{ending}", value))
        return f"shardfeed {command} {old} {new} {flag} {given}{more}"
