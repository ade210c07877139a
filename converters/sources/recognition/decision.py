"""The decision: whether class folders are used as such, and which advice of a refusal is printed.

- Class folders that nothing speaks against (`rules`) are used. Else they are refused, with the first doubt.
- Of a refusal's advice, a clause that names no option is the user's to do, and stays.
- A clause that names options stays if the request with them, tried here on the user's own files, holds.
- Where one does not, up to three other readings that hold stand in its place, each with what it gives.
- Files beside the images that nothing reads are named.
"""

import os
from collections.abc import Iterator
from itertools import islice

from shardfeed.converters.sources.files.folder_layouts import keep_classes, without_labels
from shardfeed.converters.sources.files.listing import names_archive, names_image
from shardfeed.converters.sources.files.set_aside import is_for_people
from shardfeed.converters.sources.image_folder import FileNames, ImageFolder
from shardfeed.converters.sources.look import Look
from shardfeed.converters.sources.readers import RECORD_ENDS
from shardfeed.converters.sources.recognition.advice import Clause, clauses_of, joined
from shardfeed.converters.sources.recognition.alternatives import Change, alternatives
from shardfeed.converters.sources.recognition.outcome import Outcome
from shardfeed.converters.sources.recognition.request import Request
from shardfeed.converters.sources.recognition.rules import OF_FOLDERS, OF_NAMES, faults_of
from shardfeed.converters.sources.recognition.trial import Opener, Trials
from shardfeed.converters.sources.source import Source
from shardfeed.errors import (
    SOURCE,
    LabelFileError,
    MissingExtraError,
    ShardfeedError,
    UsageError,
    argument,
    arguments_in,
    as_source,
    escape,
)
from shardfeed.text import some

_DEEP = 6  # folders in which records are looked for
_BESIDE = 5000  # files whose names are looked at
_MOST = 3  # readings that a message offers


def with_tried_advice(refusal: UsageError, request: Request, look: Look, opened: Opener) -> UsageError:
    """Return the refusal of a request with advice that was tried; the same error, where none of it fails.

    `look`: at the path. `opened`: what opens a request and gives no advice of its own. Where the user said how the
    source is to be read, or a cell of a table is at fault, advice is about that, and stays.
    """
    if request.is_narrowed or isinstance(refusal, LabelFileError | MissingExtraError):
        return refusal
    refusal = _naming_what_is_beside(refusal, look)
    trials = Trials(opened)
    clauses = [*clauses_of(refusal)]
    kept = [clause for clause in clauses if clause.change is None or _leads_on(clause.change, request, refusal, trials)]
    if len(kept) == len(clauses):
        return refusal
    offers = _offers(request, look, trials, kept)
    remedy = "; ".join(filter(None, [joined(kept), *offers]))
    return type(refusal)(refusal.args[0], refusal.args[1], remedy)


def check_folders(source: Source, look: Look) -> None:
    """Raise UsageError for folders of images whose names are used as classes, if something speaks against that."""
    if not isinstance(source, ImageFolder | FileNames):
        return
    if not look.holds_only_images and (name := next(look.files(RECORD_ENDS, _DEEP), "")):
        raise UsageError(look.path, f"{escape(name)} beside images is not read", "give a folder with one of the two")
    outcome = Outcome(source)
    faults = faults_of(outcome, OF_FOLDERS if isinstance(source, ImageFolder) else OF_NAMES)
    if not faults:
        return
    what = "folders" if isinstance(source, ImageFolder) else "file names"
    problem = f"its {what} ({some(outcome.classes)}) may not be classes: {faults[0]}"
    remedy = f"{without_labels()}{keep_classes()}"
    raise UsageError(look.path, problem, remedy)


def _naming_what_is_beside(refusal: UsageError, look: Look) -> UsageError:
    """The refusal of a folder of images, with the files in it that nothing reads and that it does not name yet."""
    place, problem, remedy = refusal.args
    if not look.image or os.path.abspath(place) != os.path.abspath(look.path):
        return refusal
    others = [name for name in islice(look.files(depth=2), _BESIDE) if _may_label(name)]
    unnamed = [name for name in others if os.path.basename(name) not in f"{problem} {remedy}"]
    if not unnamed or len(unnamed) < len(others):  # one of a kind is enough
        return refusal
    return type(refusal)(place, f"{problem}; not read: {some(unnamed)}", remedy)


def _may_label(name: str) -> bool:
    """Whether a file may say something about images, as far as its name shows."""
    return not (names_image(os.fsencode(name)) or names_archive(name) or is_for_people(os.path.basename(name)))


def _leads_on(change: Change, request: Request, refusal: ShardfeedError, trials: Trials) -> bool:
    """Whether a request holds with a change, or is refused for another reason, with advice of its own."""
    verdict = trials.of(request.changed(change))
    if verdict.refusal is None:
        return verdict.holds
    has_advice = bool(verdict.refusal.remedy) or bool(arguments_in(verdict.refusal))
    return has_advice and verdict.refusal.problem != refusal.problem


def _offers(request: Request, look: Look, trials: Trials, kept: list[Clause]) -> Iterator[str]:
    """Yield up to three further readings that hold, as what is to be typed, and what each gives."""
    said = [request.changed(clause.change) for clause in kept if clause.change]
    room = _MOST - len(said)
    for change in alternatives(look):
        if request.is_unpacked and SOURCE in change:
            continue
        new = request.changed(change)
        if not room:
            return
        if new in said or new == request or not (verdict := trials.of(new)).holds:
            continue
        yield f"{_typed(change)} gives {verdict.outcome}"
        room -= 1


def _typed(change: Change) -> str:
    """A change as it is typed."""
    parts: list[str] = []
    for name, value in change.items():
        values = value if isinstance(value, tuple) else (value,)
        parts += [as_source(one) if name == SOURCE else argument(name, one) for one in values]
    return " with ".join(parts)
