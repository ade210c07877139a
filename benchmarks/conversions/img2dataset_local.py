"""img2dataset: `download` from file:// addresses to WebDataset tars, shrunk to a shorter side; then `sync -f`."""

# The first import starts the clock.
from measured import WORKERS, measure, photo_paths, photos_and_out, sync  # isort: skip

import sys
import tarfile
from pathlib import Path

from img2dataset import download

QUALITY = 92  # as shardfeed's


def main() -> None:
    photos, out = photos_and_out()
    shorter = int(sys.argv[3])

    def work() -> None:
        addresses = Path(out, "addresses.txt")
        addresses.write_text("".join(f"{path.as_uri()}\n" for path in photo_paths(photos)))
        download(
            url_list=str(addresses),
            input_format="txt",
            output_folder=f"{out}/all",
            output_format="webdataset",
            processes_count=WORKERS,
            thread_count=8,
            number_sample_per_shard=1000,
            image_size=shorter,
            resize_mode="keep_ratio",
            resize_only_if_bigger=True,
            encode_quality=QUALITY,
            enable_wandb=False,
        )
        sync(out)

    def count() -> int:
        tars = Path(out, "all").glob("*.tar")
        return sum(name.endswith(".jpg") for tar in tars for name in tarfile.open(tar).getnames())

    measure(work, count)


if __name__ == "__main__":
    main()
