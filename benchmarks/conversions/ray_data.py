"""Ray Data: `read_binary_files`, a `map` for the label, `write_webdataset`, then `sync -f`.

`write_tfrecords` of the same rows took a quarter longer, and it needs TensorFlow in each worker.
"""

# The first import starts the clock.
from measured import WORKERS, measure, photo_labels, photo_paths, photos_and_out, sync  # isort: skip

import os
import tarfile
from pathlib import Path

import ray
import ray.data


def main() -> None:
    photos, out = photos_and_out()
    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False

    def work() -> None:
        labels = photo_labels(photo_paths(photos))

        def sample(row: dict[str, object]) -> dict[str, object]:
            path = str(row["path"])
            label = labels[os.path.basename(os.path.dirname(path))]
            return {"__key__": Path(path).stem, "jpg": row["bytes"], "cls": str(label)}

        data = ray.data.read_binary_files(photos, include_paths=True).map(sample)
        data.write_webdataset(f"{out}/all", encoder=None)  # encoded already
        sync(out)

    def count() -> int:
        tars = Path(out, "all").glob("*.tar")
        return sum(name.endswith(".jpg") for tar in tars for name in tarfile.open(tar).getnames())

    measure(work, count, close=ray.shutdown)


if __name__ == "__main__":
    main()
