# /// script
# dependencies = ["panlabel==0.7.0"]
# ///
"""panlabel: `panlabel convert` to COCO, with the validation that it does by itself."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from reading import main

FORMATS = {"COCO": "coco", "YOLO": "yolo", "VOC": "voc"}


def read(form: str, folder: Path, masks: bool) -> tuple[int, int]:
    """Images and objects of the COCO file that it makes; it does not look at images."""
    source = folder / "annotations/instances_train.json" if form == "COCO" else folder
    with tempfile.TemporaryDirectory() as here:
        out = Path(here, "out.json")
        program = str(Path(sys.executable).with_name("panlabel"))
        words = ["convert", "--from", FORMATS[form], "--to", "coco", "--input", source, "--output", out]
        words += ["--split", "train"] if form == "YOLO" else []
        done = subprocess.run([program, *words, "--allow-lossy"], capture_output=True, text=True, check=False)
        print(done.stdout, done.stderr)
        if done.returncode:
            raise RuntimeError(f"status {done.returncode}: {done.stderr.strip()}")
        made = json.loads(out.read_text())
    return len(made["images"]), len(made["annotations"])


if __name__ == "__main__":
    main(read)
