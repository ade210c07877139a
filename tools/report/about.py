"""The report of one dataset: its findings with their remedies, figures and pictures."""

from typing import Any

from shardfeed.converters.operations.dataset_source import Opened
from shardfeed.errors import name_text
from shardfeed.readers.dataset import Dataset
from shardfeed.tools.report import sections
from shardfeed.tools.report.findings import Findings
from shardfeed.tools.report.inputs import Inputs
from shardfeed.tools.report.measure import Measured
from shardfeed.tools.report.remedies import Remedies
from shardfeed.tools.report.thumbnails import Thumbnails

_KEYS_SHOWN = 1_000  # of a finding


class About:
    """A measured dataset, as a `Subject` of a report. `title`: the user's name for it, `typed`: its path or URL."""

    template, kind = "report.html", "findings"

    def __init__(self, data: Dataset, typed: str, title: str, measured: Measured, inputs: Inputs) -> None:
        self._measured, self._typed, self._inputs = measured, typed, inputs
        findings = Findings(data, measured)
        self._findings = findings.all()
        keys = {name: records.keys for name, records in Opened(data).splits.items()}
        self._pictures = Thumbnails(data, measured, findings, keys)
        headline = sections.headline(data, measured)
        self.lines = (f"{title}: {headline}", [f"{one.harm.ljust(6)}  {one.title}" for one in self._findings])
        self._content = {
            "name": title,
            "headline": headline,
            "fingerprint": data.manifest.fingerprint,
            "made": [*inputs.tables(), sections.options(data)],
            "ask_for_source": inputs.ask_for_source,
            "samples": sections.samples(data, measured, findings),
            "charts": sections.charts(measured),
            "formats": sections.formats(measured),
            "objects": sections.objects(data, measured),
        }

    def figures(self, folder: str) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Content for the page and for JSON, and the lists for its commands, by paths in `folder`."""
        remedies = Remedies(self._typed, folder, self._pictures, int((~self._measured.decoded).sum()))
        listed = []
        for finding in self._findings:
            command, left_out = remedies.command(finding)
            told = {name: getattr(finding, name) for name in ("code", "harm", "title", "text", "count", "advice")}
            keys = [name_text(self._pictures.key(place)) for place in finding.images[:_KEYS_SHOWN].tolist()]
            listed.append({**told, "keys": keys, "command": command, "left_out": left_out})
        content = {
            **self._content,
            "findings": listed,
            "all": remedies.everything(self._findings),
            "split_anew": remedies.split_anew(self._findings, sections.shares(self._measured)),
        }
        return content, remedies.lists

    def pictures(self, most: int) -> dict[str, Any]:
        """Pictures for the page: of findings, and at most `most` of classes."""
        groups = [[[*map(self._pictures.picture, group)] for group in finding.shown] for finding in self._findings]
        rows, rows_left_out = self._pictures.rows(most)
        inputs = self._inputs.rows(self._pictures)
        return {"groups": groups, "rows": rows, "rows_left_out": rows_left_out, "inputs": inputs}
