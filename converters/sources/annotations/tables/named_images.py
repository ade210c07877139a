"""The files that the names in an annotation file mean, where those names are all that it says of images."""

from collections.abc import Mapping, Sequence

import numpy as np

from shardfeed.converters.sources.files.image_lookup import AmbiguousIdError, PathLookup
from shardfeed.converters.sources.files.listing import Listing, names_image
from shardfeed.converters.sources.source import Skipped
from shardfeed.errors import LabelFileError, argument, escape
from shardfeed.text import counted


class NamedImages:
    """`files[name]`: the number of the file in `listing`, for each of `places` that is one.

    `places`: where each name was first read, by name. `skipped[name]`: why there is none. Names are paths below the
    root; where none is, they are ids, as of label files: a name without its extension or folder. `notes`: for the
    report.

    Raises LabelFileError where no name is a file, or an id may be two.
    """

    def __init__(self, listing: Listing, places: Mapping[str, str]) -> None:
        lookup = PathLookup(listing)
        self.listing = listing
        self.files: dict[str, int] = {}
        self.skipped: dict[str, Skipped] = {}
        self.notes: list[str] = []
        for name, place in places.items():
            try:
                found = lookup.find(name)
            except UnicodeEncodeError:
                raise LabelFileError(place, "the name of an image is not Unicode", "correct it") from None
            if isinstance(found, int):
                self.files[name] = found
            else:
                short = place.rpartition("/")[2]  # where the file lies is no business of the dataset
                self.skipped[name] = Skipped(found.key, found.code, f"{escape(short)}: {found.reason}")
        if not self.files:
            self._find_ids(lookup, places)

    def _find_ids(self, lookup: PathLookup, places: Mapping[str, str]) -> None:
        by_key = {why.key: name for name, why in self.skipped.items()}
        try:
            ids = lookup.find_ids(key for key in by_key if not key.startswith((b"/", b"../")))
        except AmbiguousIdError as error:
            problem = f"'{escape(error.id)}' may be {' or '.join(escape(file) for file in error.files)}"
            remedy = f"give the folder of these images: {argument('images', typed='DIR')}"
            raise LabelFileError(places[by_key[error.id]], problem, remedy) from None
        for key, file in ids.items():
            self.files[by_key[key]] = file
            del self.skipped[by_key[key]]
        if not self.files:
            name, place = next(iter(places.items()))
            problem = (
                f"none of {len(places)} images is under {escape(self.listing.root)}, the first is '{escape(name)}'"
            )
            remedy = f"give the folder that names are relative to: {argument('images', typed='DIR')}"
            raise LabelFileError(place, problem, remedy)
        key, file = next(iter(ids.items()))
        example = f"'{escape(key)}' is '{escape(self.listing.key(file))}'"
        self.notes.append(f"names of images taken for names without extension or folder: {len(ids)} ({example})")

    @property
    def rejected(self) -> list[Skipped]:
        """Those that are not there, each once, sorted by key."""
        by_key = {why.key: why for why in reversed(self.skipped.values())}
        return [by_key[key] for key in sorted(by_key)]

    def chosen(self) -> np.ndarray:
        """int64 [n]: the numbers of the files that are named, increasing."""
        return np.array(sorted(set(self.files.values())), np.int64)

    def unnamed(self, chosen: np.ndarray, what: str) -> Sequence[str]:
        """A note where images of the folder are not among `chosen`; `what`: what they lack."""
        rest = map(self.listing.key, np.setdiff1d(np.arange(len(self.listing)), chosen).tolist())
        images = [key for key in rest if names_image(key)]
        return [counted(f"image files under the root without {what}", images, len(images))] if images else []
