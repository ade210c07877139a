"""Image folders and label files in, sharded TFRecords out; sharded TFRecords in, batches on GPUs out.

`shardfeed.open(path)` gives a dataset's splits. Converting lives in `shardfeed.converters`, reading in
`shardfeed.readers`, feeding Keras and tf.distribute in `shardfeed.pipelines`.
"""

import os.path as _path
from typing import TYPE_CHECKING, Any

from shardfeed.version import __version__

__all__ = ["__version__", "open"]

# The repository keeps converters/, readers/, pipelines/ and tools/ beside this folder, and setup.cfg maps
# them to `shardfeed.*` when it installs. Python started in the repository's root finds this folder first,
# where nothing is mapped, so we let it look one folder up; in an installed package there is no setup.cfg.
_root = _path.dirname(_path.dirname(__file__))
if _path.isfile(_path.join(_root, "setup.cfg")):
    __path__.append(_root)

if TYPE_CHECKING:
    from shardfeed.readers.dataset import open


def __getattr__(name: str) -> Any:
    if name == "open":
        from shardfeed.readers.dataset import open

        return open
    raise AttributeError(f"module 'shardfeed' has no attribute {name!r}")
