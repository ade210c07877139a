"""shardfeed: `convert` with its own checks, index and fsync; `--skip-fsync` to learn what the latter costs."""

# The first import starts the clock.
from measured import WORKERS, count_tfrecords, measure, photos_and_out, sync  # isort: skip

import argparse
import os
import sys
import time
from pathlib import Path

_SITE = str(Path(__file__).parent / "without_fsync")


def main() -> None:
    photos, out = photos_and_out()
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", default="decode")
    parser.add_argument("--no-hash", action="store_true")
    parser.add_argument("--resize-shorter", type=int)
    parser.add_argument("--shards", type=int, required=True)
    parser.add_argument("--skip-fsync", action="store_true")
    args = parser.parse_args(sys.argv[3:])
    skipped = f"{out}/skipped_fsyncs"
    if args.skip_fsync and _SITE not in os.environ.get("PYTHONPATH", ""):  # again, so that this process has it too
        path = os.pathsep.join(filter(None, [_SITE, os.environ.get("PYTHONPATH")]))
        os.execve(
            sys.executable, [sys.executable, *sys.argv], os.environ | {"PYTHONPATH": path, "SKIPPED_FSYNCS": skipped}
        )

    from shardfeed.converters import ImageFolder, ImageOptions, convert

    image = ImageOptions(check=args.check, resize_shorter=args.resize_shorter, sha256=not args.no_hash)

    def work() -> None:
        report = convert(
            ImageFolder(photos),
            f"{out}/all",
            shards=args.shards,
            workers=WORKERS,
            image=image,
        )
        if report.rejected:
            raise SystemExit(f"{report.rejected[0]}: rejected, the photos are damaged")

    def sync_after() -> dict[str, float]:
        if not args.skip_fsync:
            return {}
        if os.path.getsize(skipped) < args.shards:
            raise SystemExit("the workers did not leave out their fsync calls")
        begun = time.monotonic()
        sync(out)
        return {"sync_seconds": time.monotonic() - begun, "skipped_fsyncs": os.path.getsize(skipped)}

    measure(work, lambda: count_tfrecords(Path(out, "all").rglob("*.tfrecord")), notes=sync_after)


if __name__ == "__main__":
    main()
