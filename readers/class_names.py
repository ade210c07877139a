"""The class names of a split or a dataset, if several features have classes."""

from shardfeed.annotations import RASTER
from shardfeed.errors import UsageError, escape
from shardfeed.schema import LABEL, Schema


def main_class_names(schema: Schema) -> tuple[str, ...]:
    """Return the class names of whole images, else of objects, pixels or tags; empty if nothing has classes.

    Raises UsageError if several features have different names and none of them is `image/class/label`.
    """
    names = {key: schema.class_names[key] for key in sorted(schema.class_names)}
    if (label := schema.key(LABEL)) in names:
        return names[label]
    if schema.raster is not None:
        names[RASTER] = schema.raster.class_names
    if len(set(names.values())) > 1:
        ways = [f"schema.class_names[{key!r}]" if key != RASTER else "schema.raster.class_names" for key in names]
        problem = f"{', '.join(map(escape, names))} have different classes"
        raise UsageError("class_names", problem, f"use one of {', '.join(ways)} of a split")
    return next(iter(names.values()), ())
