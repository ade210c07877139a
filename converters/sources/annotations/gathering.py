"""What readers of objects need while they read: an account of what is left out, class names, and numbers."""

from collections.abc import Iterable, Sequence

from shardfeed.converters.sources.annotations.options import AnnotationOptions, Task
from shardfeed.converters.sources.files.listing import Listing
from shardfeed.converters.sources.files.walk import list_files, nothing_listed
from shardfeed.converters.sources.rows.columns import Splits
from shardfeed.converters.sources.rows.ledger import Ledger as Ledger
from shardfeed.converters.sources.rows.ledger import Names as Names
from shardfeed.converters.sources.rows.object_table import ObjectTable
from shardfeed.errors import UsageError
from shardfeed.naming import check_split_name
from shardfeed.text import number


def list_wanted(root: str, options: AnnotationOptions) -> Listing:
    """The files below `root` that the options want. Raises UsageError where there is none."""
    files = list_files(root, include=options.include, exclude=options.exclude, follow_links=options.follow_links)
    if not len(files):
        raise nothing_listed(files)
    return files


def check_tasks(place: object, options: AnnotationOptions, possible: Iterable[Task]) -> None:
    """Raises UsageError where something else is asked of a format than what it has, or only classes."""
    possible = list(possible)
    others = sorted(options.tasks.difference(possible, ("classes",)))
    if others or options.tasks == {"classes"}:
        problem = f"got the task '{(others or ['classes'])[0]}', expected {' or '.join(possible)}, which it has"
        raise UsageError(place, problem, "ask for those, or for none in particular")


def in_numbers(images: int, table: ObjectTable | None) -> str:
    """How much there is, for the user: `4 images, 6 objects of 3 classes`."""
    said = number(images, "image")
    if table is not None:
        said += f", {number(len(table), 'object')}"
    if table is not None and table.class_names is not None:
        said += f" of {number(len(table.class_names), 'class', 'classes')}"
    return said


def splits_of(said: Sequence[str | None], options: AnnotationOptions) -> Splits | None:
    """The split of each sample, from what the annotations say of it: where they say none, that of the options."""
    wanted = None if options.split is None else check_split_name(options.split)
    if all(split is None for split in said):
        return None if wanted is None else Splits.of([wanted] * len(said))
    return Splits.of(said)
