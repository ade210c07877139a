"""Writes the MDS datasets beside it, with MosaicML's own writer: python make_mds.py, where mosaicml-streaming 0.13 is.

That package pins NumPy below 2.2, so it has an environment of its own.
"""

import io
import shutil
from pathlib import Path

import numpy as np
from PIL import Image
from streaming import MDSWriter

HERE = Path(__file__).parent
KINDS = {"image": "jpeg", "class": "int", "filename": "str", "scores": "ndarray:float32:3", "note": "json"}


def picture(number: int) -> Image.Image:
    """Smooth colours, others for each number."""
    coarse = np.random.default_rng(number).integers(0, 255, (3, 4, 3), np.uint8)
    return Image.fromarray(coarse).resize((24, 16))


def encoded(number: int, form: str) -> bytes:
    out = io.BytesIO()
    picture(number).save(out, form)
    return out.getvalue()


def write(name: str, columns: dict[str, str], rows: list[dict[str, object]], **options: object) -> None:
    shutil.rmtree(HERE / name, ignore_errors=True)
    with MDSWriter(out=str(HERE / name), columns=columns, **options) as writer:
        for row in rows:
            writer.write(row)


def photo(number: int) -> dict[str, object]:
    scores = np.array([number, 0.5, -1], np.float32)
    file = f"photo {number}.jpg"
    return {"image": picture(number), "class": number % 3, "filename": file, "scores": scores, "note": [number, 7]}


write("photos/train", KINDS, [photo(n) for n in range(6)], size_limit=3000)
write("photos/val", KINDS, [photo(n) for n in range(6, 9)])
write(
    "packed",
    {"png": "bytes", "label": "str"},
    [{"png": encoded(n, "PNG"), "label": "ab"[n % 2]} for n in range(4)],
    compression="zstd:3",
    size_limit=3000,
)
write(
    "arrays",
    {"image": "ndarray", "label": "uint8"},
    [{"image": np.asarray(picture(n).convert("L" if n else "RGB")), "label": np.uint8(n)} for n in range(3)],
)
write("pil", {"img": "pil", "label": "str_int"}, [{"img": picture(n), "label": n} for n in range(3)])
write("pickled", {"image": "jpeg", "label": "pkl"}, [{"image": picture(0), "label": 1}])
