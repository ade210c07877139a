"""Notes the images that a model is trained on, in a file for each rank, and kills its process at a given step."""

import json
import os
import signal
import zlib
from pathlib import Path
from typing import Any

steps = 0


def row_of(images: Any) -> list[int]:
    """A checksum of each image, in ascending order."""
    return sorted(zlib.crc32(image.contiguous().numpy().tobytes()) for image in images)


def note(module: Any, inputs: Any) -> None:
    global steps
    if not module.training:
        return
    rank = os.environ.get("RANK", "0")
    seen, killed = Path(f"{os.environ['SEEN']}_{rank}"), Path(f"{os.environ['SEEN']}_killed").with_name("killed")
    if str(steps) == os.environ["KILL_AT"] and not killed.exists() and rank == "0":
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    with seen.open("a") as file:
        for line in (*["started"][steps:], row_of(inputs[0])):
            file.write(f"{json.dumps(line)}\n")
    steps += 1


def watch(model: Any) -> None:
    model.register_forward_pre_hook(note)
