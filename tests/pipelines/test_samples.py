"""Sources of batches: what is known of their images."""

import pickle
import shutil
from pathlib import Path
from typing import Any

from datasets import here
from seekable_images import drawn, jpeg

import shardfeed
from shardfeed.converters import ImageOptions, convert, from_dicts
from shardfeed.converters.existing.adopt import adopt
from shardfeed.converters.existing.surveying import survey
from shardfeed.pipelines import mix
from shardfeed.pipelines.samples import images_checked
from shardfeed.readers.split import Split


def stored(out: Path, **options: Any) -> Split:
    source = from_dicts({"image": jpeg(drawn(20, 30, n)), "key": str(n)} for n in range(3))
    convert(source, out, image=ImageOptions(**options), workers=here())
    return shardfeed.open(out)["train"]


def test_which_images_are_known_to_be_whole(tmp_path: Path) -> None:
    decoded, unknown = stored(tmp_path / "decode"), stored(tmp_path / "header", check="header")
    assert images_checked(decoded)
    assert images_checked(decoded[1:])
    assert images_checked(pickle.loads(pickle.dumps(decoded)))
    assert images_checked(mix([(decoded, 1), (decoded[1:], 2)]))
    assert not images_checked(unknown)
    assert not images_checked(mix([(decoded, 1), (unknown, 2)]))
    assert not images_checked(stored(tmp_path / "none", check="none"))
    (tmp_path / "adopted").mkdir()
    shutil.copy(tmp_path / "decode" / "train-00000-of-00001.tfrecord", tmp_path / "adopted")
    adopt(survey(tmp_path / "adopted"))
    assert not images_checked(shardfeed.open(tmp_path / "adopted")["train"]), (
        "nobody has decoded another program's images"
    )
