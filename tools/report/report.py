"""A report about a dataset, or a comparison of two: a page for browsers and notebooks, and figures."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Annotated, Any

from shardfeed.converters.existing.dataset_source import DatasetLike
from shardfeed.declared import Typed, checked
from shardfeed.errors import UsageError, check_extra, escape, without_secrets
from shardfeed.processes import progress_bar
from shardfeed.readers.dataset import Dataset
from shardfeed.readers.dataset import open as open_dataset
from shardfeed.storage.local import make_directory, write_file
from shardfeed.text import number
from shardfeed.tools.arguments import check_output
from shardfeed.tools.report.about import About
from shardfeed.tools.report.compare import DatasetComparison
from shardfeed.tools.report.measure import measure
from shardfeed.tools.report.page import plain, render

PAGE = "report.html"
_OUTPUT = Typed(f"page to write (default {PAGE})", "FILE", "o/output")
_PICTURES, _INLINE = 3_000, 400  # of classes, on a page and in a notebook: 2.5 kB each


@checked
def report(
    data: Annotated[Dataset | str | os.PathLike[str], Typed("dataset directory or URL; it is only read", "dataset")],
    newer: Annotated[DatasetLike | None, Typed("newer dataset to compare it with", placed=True)] = None,
    *,
    source: Annotated[
        str | os.PathLike[str] | None,
        Typed("image folder that was converted, to show the images that were left out", "DIR"),
    ] = None,
    keep: str | os.PathLike[str] | None = None,
    progress: Callable[[int], object] | None = None,
) -> "DatasetReport":
    """Decode all images of a dataset and report its probable faults, or compare two datasets.

    Datasets are only read. The report takes 160 bytes of memory per image and needs `pip install 'shardfeed[report]'`.

    Args:
        data: a dataset's directory or URL, or an open `Dataset`.
        newer: a newer version of the dataset, to compare with `data`. Images are matched by hashes, then by keys.
        source: the image folder that the dataset was created from, so that the page can show the images that were left
            out. No other file in the folder is read.
        keep: a folder in which measurements are cached, created if missing; a later report that uses it takes seconds.
        progress: called with the number of images measured since the last call; by default a bar is shown on a terminal
            and in a notebook.

    Raises MissingExtraError without Jinja2, UsageError if records have no image or `source` is not a folder,
    IntegrityError as `open` does, StorageError if files cannot be read.

    Example:
        found = report("flowers")
        print(found)
        found.save("flowers.html")
    """
    check_extra("jinja2", "report")
    typed = [one.directory if isinstance(one, Dataset) else os.fspath(one) for one in (data, newer) if one is not None]
    every = [one if isinstance(one, Dataset) else open_dataset(one) for one in (data, newer) if one is not None]
    if newer is not None and source is not None:
        raise UsageError("source", "is for the report of one dataset, and two are compared", "leave it out")
    if source is not None and not os.path.isdir(source):
        raise UsageError("source", f"no directory {escape(source)!r}", "give the folder that was converted")
    titles = [escape(os.path.basename(without_secrets(path).rstrip("/")) or path) for path in typed]
    total = sum(len(split) for one in every for split in one.values())
    folder, images = (None if path is None else os.fspath(path) for path in (keep, source))
    bar: Any = nullcontext() if progress else progress_bar(total=total, unit=" images")
    with bar:
        measured = [measure(one, folder, progress or bar.update) for one in every]
    if newer is None:
        return DatasetReport(About(measured[0], typed[0], titles[0], images))
    return DatasetReport(DatasetComparison(measured[0], measured[1], titles))


class DatasetReport:
    """Findings about one dataset, or differences between two.

    Notebooks show it as a page; `print` writes one line per finding.

    Example:
        found = report("flowers")
        print([finding["title"] for finding in found.findings if finding["harm"] == "high"])
        found.save("flowers.html")
    """

    def __init__(self, subject: About | DatasetComparison) -> None:
        self._subject, self._output = subject, PAGE

    def __str__(self) -> str:
        subject = self._subject
        found = number(len(subject.lines), subject.kind.lower().removesuffix("s"))
        return "\n  ".join([f"{subject.title}: {subject.headline}; {found}", *subject.lines])

    def __repr__(self) -> str:
        return f"DatasetReport({str(self).splitlines()[0]})"

    def _repr_html_(self) -> str:
        return render(self._content(_INLINE)[0], framed=True).decode()

    @property
    def findings(self) -> Sequence[Mapping[str, Any]]:
        """Findings, the most harmful first.

        Each has its `code`, `harm` ("high", "medium", "low"), `title`, `text`, `count`, the `keys` of its first 1,000
        images, and the `command` that fixes it. If two datasets are compared: differences, each with its `title`,
        `count`, and a `table` of the first 1,000 images.
        """
        return self.to_json()["findings"]  # type: ignore[no-any-return]  # a list

    def to_json(self) -> dict[str, Any]:
        """A JSON value for scripts: the findings, and all tables and charts of the page, by section."""
        return plain(self._content(0)[0])  # type: ignore[no-any-return]  # a dict

    @checked
    def save(self, output: Annotated[str | os.PathLike[str], _OUTPUT] = PAGE) -> int:
        """Write the HTML page, and next to it a folder with the lists of images that the page's commands use.

        Returns the page's size in bytes. The lists of flowers.html are in the folder flowers_files.

        Raises UsageError if the name does not end in .html or its directory is missing, StorageError if the files
        cannot be written.
        """
        self._output = check_page(output)
        content, lists = self._content(_PICTURES)
        if lists:
            make_directory(files_of(self._output))
        for file, of_file in lists.items():
            write_file(file, of_file)
        return write_file(self._output, render(content))[0]

    def _content(self, pictures: int) -> tuple[dict[str, Any], dict[str, bytes]]:
        subject = self._subject
        content, lists = subject.content(files_of(self._output), pictures)
        return {"title": subject.title, "headline": subject.headline, "kind": subject.kind, **content}, lists


def check_page(output: str | os.PathLike[str]) -> str:
    """Return the path of the page to write. Raises UsageError if it is not a valid place."""
    check_output("output", name := os.fspath(output), ".html", ".htm")
    return name


def files_of(page: str) -> str:
    """Return the folder beside a page, for lists of images and for measurements."""
    return f"{os.path.splitext(page)[0]}_files"
