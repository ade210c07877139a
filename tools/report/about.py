"""The report of one dataset: its findings with the commands that fix them, figures and pictures."""

import csv
import io
import os
from typing import Any

import numpy as np

from shardfeed.errors import name_text, without_secrets
from shardfeed.schema import SHA256
from shardfeed.storage.storage import is_address
from shardfeed.text import shell_quoted
from shardfeed.tools.report import sections
from shardfeed.tools.report.findings import Finding, find
from shardfeed.tools.report.measure import Measured
from shardfeed.tools.report.page import Note, Table
from shardfeed.tools.report.pictures import Pictures

_KEYS_SHOWN = 1_000  # of a finding
_NOTHING = (
    "No faults found: no image twice, in two splits or with two labels, none blank or broken, none unusually dark, "
    "bright, blurred or oddly shaped, no class missing."
)
_LISTS = (
    "The most harmful first. Each command creates a new dataset. The commands read lists of images from a folder "
    'beside the page. In Python, save("report.html") writes them.'
)
_PICTURES = "Some images of each class in each split, evenly spaced. Look here for wrong labels."
_ASK = "To see the images that were left out, give the folder that was converted: --source DIR, in Python source=."


class About:
    """A measured dataset, as a `Subject` of a report.

    `title`: the user's name for it, `typed`: its path or URL. `source`: the folder that was converted, if known.
    """

    kind = "Findings"

    def __init__(self, measured: Measured, typed: str, title: str, source: str | None) -> None:
        self._measured, self._source = measured, source
        self._dataset = typed.rstrip("/") or typed
        if is_address(typed):  # operations read local disks: commands name the copy to make first
            self._dataset = os.path.basename(without_secrets(self._dataset))
        self._findings, self._pictures = find(measured), Pictures(measured)
        self._hashed = measured.data.manifest.schema.key(SHA256) is not None
        self.title, self.headline = title, measured.headline
        self.lines = [f"{finding.harm.ljust(6)}  {finding.title}" for finding in self._findings]

    def content(self, folder: str, most: int) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Content of the page with at most `most` pictures of classes, and its lists by paths in `folder`."""
        measured, manifest = self._measured, self._measured.data.manifest
        lists: dict[str, bytes] = {}  # content by file name
        listed = []
        for finding in self._findings:
            told = {name: getattr(finding, name) for name in ("code", "harm", "title", "text", "count")}
            if left_out := len(finding.images) - len(self._listable(finding)):
                told["text"] += f" {left_out} of them cannot be in a list of keys: their names contain line breaks."
            told["keys"] = [*map(name_text, measured.keys[finding.images[:_KEYS_SHOWN]].tolist())]
            groups = [[*map(self._pictures.picture, group)] for group in finding.shown] if most else []
            command = self._command(finding, folder, lists)
            listed.append({**told, "command": command, "pictures": groups, "table": None})
        rows, left_out = self._pictures.rows(most)
        advice = _ASK if self._source is None and manifest.rejected else ""
        made = Table("Options and versions", ("option or package", "value"), sorted(sections.options(measured).items()))
        more = f" There is no room for {left_out:,} more rows." * (left_out > 0)
        content = {
            "findings": listed,
            "summary": (_LISTS if lists else "") if listed else _NOTHING,
            "remedies": self._of_several(folder, lists),
            "sections": {
                "Samples": [*sections.samples(measured)],
                "Images": [*sections.charts({"number": measured}), sections.formats(measured)],
                "Objects": [*sections.objects(measured)],
                "Pictures": [Note(_PICTURES + more), *rows],
                "How it was made": [
                    Note(f"Fingerprint {manifest.fingerprint}. {advice}"),
                    made,
                    *self._pictures.inputs(self._source, most),
                ],
            },
        }
        return content, {os.path.join(folder, file): of_file for file, of_file in lists.items()}

    def _command(self, finding: Finding, folder: str, lists: dict[str, bytes], ending: str = "") -> str:
        """The command line that fixes a finding, "" if there is none; its list, if any, is added to `lists`."""
        if finding.remedy == "split":
            return self._divide()
        code, text = finding.code, io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(finding.table)
        file, content = f"{code}.csv", text.getvalue().encode()
        line = ("relabel", code, "--map")
        if finding.remedy != "relabel":
            file, content = f"{code}.txt", b"".join(key + b"\n" for key in self._listable(finding))
            line = ("remove", ending or f"without-{code}", "--keys")
        if not (content and finding.remedy):
            return ""
        lists[file] = content
        return self._line(*line, os.path.join(folder, file))

    def _listable(self, finding: Finding) -> list[bytes]:
        """Keys of images that a list can name, one line each."""
        keys = self._measured.keys[finding.images].tolist()
        return [key for key in dict.fromkeys(keys) if key and not {*b"\r\n"} & {*key}]

    def _of_several(self, folder: str, lists: dict[str, bytes]) -> dict[str, str]:
        """Commands for several findings at once, by what they do."""
        found, removals = {}, [of for of in self._findings if of.remedy == "remove" and of.harm != "low"]
        if len(removals) > 1:
            images = np.unique(np.concatenate([finding.images for finding in removals]))
            every = Finding("all", "high", "", "", len(images), images, remedy="remove")
            found["Remove all images of high and medium harm at once"] = self._command(every, folder, lists, "mended")
        if self._hashed and any(finding.code == "equal-across-splits" for finding in self._findings):
            found["Or new splits with about the same shares, which keep equal images together"] = self._divide()
        return found

    def _divide(self) -> str:
        """The command line for new splits of about the same shares, without leaks if files have hashes."""
        sizes = {name: part.stop - part.start for name, part in self._measured.splits.items()}
        shares = {name: max(1, round(100 * size / sum(sizes.values()))) for name, size in sizes.items() if size}
        shares[max(shares, key=shares.__getitem__)] += 100 - sum(shares.values())
        divided = ",".join(f"{name}={share / 100:g}" for name, share in shares.items())
        return self._line("split", "divided", "--split", divided, " --group-duplicates" * self._hashed)

    def _line(self, command: str, ending: str, flag: str, value: str, more: str = "") -> str:
        broken = int((~self._measured.decoded).sum())  # damaged records that are not removed
        more += f" --max-bad {broken}" if broken else ""
        old, new, given = map(shell_quoted, (self._dataset, f"{self._dataset}-{ending}", value))
        return f"shardfeed {command} {old} {new} {flag} {given}{more}"
