"""The report of one dataset: its findings with their remedies, figures and pictures."""

from typing import Any

from shardfeed.errors import name_text
from shardfeed.tools.report import sections
from shardfeed.tools.report.findings import find
from shardfeed.tools.report.inputs import Inputs
from shardfeed.tools.report.measured import Measured
from shardfeed.tools.report.page import Note, Table
from shardfeed.tools.report.remedies import Remedies
from shardfeed.tools.report.thumbnails import Thumbnails

_KEYS_SHOWN = 1_000  # of a finding
_NOTHING = (
    "Nothing was found: no image twice, in two splits or with two labels, none blank, dark, bright, blurred or broken, "
    "no class missing."
)
_LISTS = 'The commands take lists of images from a folder beside the page, which in Python save("report.html") writes.'
_PICTURES = "Some of each class in each split, spread over it. Wrong labels are seen here first."


class About:
    """A measured dataset, as a `Subject` of a report. `title`: the user's name for it, `typed`: its path or URL."""

    kind = "Findings"

    def __init__(self, measured: Measured, typed: str, title: str, inputs: Inputs) -> None:
        self._measured, self._typed, self._inputs = measured, typed, inputs
        self._findings, self._pictures = find(measured), Thumbnails(measured)
        self.title, self.headline = title, measured.headline
        self.lines = [f"{finding.harm.ljust(6)}  {finding.title}" for finding in self._findings]

    def content(self, folder: str, most: int) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Content of the page with at most `most` pictures of classes, and its lists by paths in `folder`."""
        measured, remedies, listed = self._measured, Remedies(self._measured, self._typed, folder), []
        for finding in self._findings:
            command, left_out = remedies.command(finding)
            told: dict[str, Any] = {name: getattr(finding, name) for name in ("code", "harm", "title", "text", "count")}
            if left_out:
                told["text"] += f" {left_out} of them cannot be in a list of keys: their names have line breaks."
            told["keys"] = [*map(name_text, measured.keys[finding.images[:_KEYS_SHOWN]].tolist())]
            groups = [[*map(self._pictures.picture, group)] for group in finding.shown] if most else []
            listed.append({**told, "command": command, "pictures": groups, "table": None})
        rows, left_out = self._pictures.rows(most)
        of_inputs = self._inputs.rows(self._pictures) if most else ()
        made = Table("Options and versions", ("option or package", "value"), sorted(sections.options(measured).items()))
        content = {
            "findings": listed,
            "summary": _LISTS if listed else _NOTHING,
            "remedies": remedies.of_several(self._findings),
            "sections": {
                "Samples": [*sections.samples(measured)],
                "Images": [*sections.charts({"number": measured}), sections.formats(measured)],
                "Objects": [*sections.objects(measured)],
                "Pictures": [
                    Note(_PICTURES + f" There is no room for {left_out:,} more classes." * (left_out > 0)),
                    *rows,
                ],
                "How it was made": [
                    Note(f"Fingerprint {measured.data.manifest.fingerprint}. {self._inputs.advice}"),
                    *self._inputs.tables(),
                    made,
                    *of_inputs,
                ],
            },
        }
        return content, remedies.lists
