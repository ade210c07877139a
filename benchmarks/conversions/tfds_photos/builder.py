"""A `GeneratorBasedBuilder` as TFDS's guide "Writing custom datasets" has it: paths as images, stored as they are."""

from collections.abc import Iterator
from pathlib import Path

import tensorflow_datasets as tfds


class Photos(tfds.core.GeneratorBasedBuilder):
    """Photos in class folders. Set `folder` before it is built."""

    VERSION = tfds.core.Version("1.0.0")
    folder: Path

    def _info(self) -> tfds.core.DatasetInfo:
        names = sorted(path.name for path in self.folder.iterdir() if path.is_dir())
        features = tfds.features.FeaturesDict(
            {
                "image": tfds.features.Image(shape=(None, None, 3), encoding_format="jpeg"),
                "filename": tfds.features.Text(),
                "label": tfds.features.ClassLabel(names=names),
            }
        )
        return tfds.core.DatasetInfo(builder=self, description="Photos.", features=features)

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Iterator]:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Iterator:
        for path in sorted(self.folder.rglob("*.jpg")):
            yield path.name, {"image": path, "filename": path.name, "label": path.parent.name}
