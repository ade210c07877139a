"""shardfeed, this one: its readers, and a whole conversion that is told to leave out what is bad."""

import tempfile
from pathlib import Path

from reading import main


def read(form: str, folder: Path, masks: bool) -> tuple[int, int]:
    """Images and objects of the dataset that is made; what was left out is printed, as the command does."""
    import shardfeed
    from shardfeed.annotations import XMIN
    from shardfeed.converters import AnnotationOptions, convert, open_source

    place = {"COCO": "annotations/instances_train.json", "YOLO": "data.yaml", "VOC": "."}[form]
    options = AnnotationOptions(
        images=str(folder / "images/train") if form == "COCO" else None,
        tasks=frozenset({"boxes", "masks"}) if masks else frozenset(),
    )
    source = open_source(folder / place, reader=form.lower(), options=options)
    with tempfile.TemporaryDirectory() as here:
        out = Path(here, "out")
        made = convert(source, out, workers=1, max_bad={"images": "99%", "objects": "99%"})
        for name in ("left_out.jsonl", "rejected.jsonl"):
            if (out / name).is_file():
                print((out / name).read_text())
        print(*made.notes, sep="\n")
        records = [record for split in shardfeed.open(out).values() for record in split]
    return len(records), sum(len(record.get(XMIN, ())) for record in records)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(read)
