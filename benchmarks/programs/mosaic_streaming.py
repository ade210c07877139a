# /// script
# dependencies = ["mosaicml-streaming==0.13.0", "torch==2.13.0"]
# ///
"""MDS: MosaicML's streaming."""

from program import Data, check, digest, main, without_operators

SIDES = [f"image/object/bbox/{side}" for side in ("ymin", "xmin", "ymax", "xmax")]


@check("MosaicML streaming", "mosaicml-streaming", "StreamingDataset(local='DIR', split='train')", "`--to mds`")
def streaming_dataset(data: Data) -> None:
    without_operators()
    from streaming import StreamingDataset

    def rows(split: str, name: str):
        made = StreamingDataset(local=data.folder(f"{name}-mds"), split=split, batch_size=1, shuffle=False)
        return [made[place] for place in range(len(made))]

    for split in ("train", "validation", "test"):
        found = [(row["image/filename"].decode(), row["label"], digest(row["image"])) for row in rows(split, "photos")]
        data.compare(split, found, "name", "label", "bytes")
    found = []
    for row in rows("train", "scenes"):
        boxes = [[round(side, 4) for side in box] for box in zip(*(row[key].tolist() for key in SIDES), strict=True)]
        found.append((row["image/filename"].decode(), boxes, [int((mask != 0).sum()) for mask in masks(row)]))
    data.compare("train", found, "name", "boxes", "mask sums", name="scenes")


def masks(row):
    import numpy as np

    return [np.asarray(mask) for mask in row["image/object/mask"]]


if __name__ == "__main__":
    main()
