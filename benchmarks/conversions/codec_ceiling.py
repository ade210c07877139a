"""The decoder alone: what `--check decode` calls for each JPEG, in two processes, on files that are in memory.

Nothing is written. The clock starts when both processes have read their half.
"""

# The first import starts the clock.
from measured import WORKERS, measure, photo_paths, photos_and_out  # isort: skip

import multiprocessing
from collections.abc import Sequence
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

from shardfeed.converters.images.jpeg import read_jpeg_header
from shardfeed.converters.images.pixels import check_pixels
from shardfeed.converters.rejects import MAX_PIXELS


def decode_part(paths: Sequence[Path], ready: Barrier, go: Event) -> None:
    files = [path.read_bytes() for path in paths]
    headers = [read_jpeg_header(data, MAX_PIXELS) for data in files]
    check_pixels(files[0], headers[0])  # whatever it loads at its first call
    ready.wait()
    go.wait()
    for data, header in zip(files, headers, strict=True):
        check_pixels(data, header)


def main() -> None:
    photos, _ = photos_and_out()
    paths = photo_paths(photos)
    context = multiprocessing.get_context("fork")
    ready, go = context.Barrier(WORKERS + 1), context.Event()
    parts = [context.Process(target=decode_part, args=(paths[n::WORKERS], ready, go)) for n in range(WORKERS)]
    for part in parts:
        part.start()
    ready.wait()

    def work() -> None:
        go.set()
        for part in parts:
            part.join()
            if part.exitcode:
                raise SystemExit("a decoding process failed")

    measure(work, lambda: len(paths))


if __name__ == "__main__":
    main()
