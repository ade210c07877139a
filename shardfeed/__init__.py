"""Convert images with labels, boxes, masks and texts into sharded datasets, and feed them to GPUs in batches.

    convert, open_source, from_dicts                        images to a dataset
    LabelOptions, AnnotationOptions, ColumnOptions          options for reading labels, annotations, columns
    ImageOptions                                            options for storing images
    append, merge, filter, split, relabel, remove, reshard    a new dataset from existing ones
    export, verify                                          a dataset to files of other tools; a check of every byte
    open, Dataset, Split                                    a dataset, its splits, their records
    report, DatasetReport                                   probable problems of a dataset, as an HTML page
    preview                                                 a picture of an image as augmentations make it
    train_batches, eval_batches, predict_batches, make_batches    batches for TensorFlow and Keras
    torch_loader, torch_eval_loader, torch_predict_loader         batches for PyTorch
    array_batches, eval_array_batches                       batches as NumPy arrays, for JAX and others
    keras_batches                                           the same for Keras on any backend

    data = shardfeed.open("flowers")
    batches = shardfeed.train_batches(data["train"], batch_size=32, image_size=224)

All other names are in `shardfeed.converters`, `shardfeed.readers`, `shardfeed.pipelines` and
`shardfeed.pipelines.torch`.
"""

import os.path as _path
from typing import TYPE_CHECKING

from shardfeed.lazy import lazy_names
from shardfeed.version import __version__ as __version__

# The repository keeps converters/, readers/, pipelines/ and tools/ beside this folder, and setup.py maps
# them to `shardfeed.*` when it installs. Python started in the repository's root finds this folder first,
# where nothing is mapped, so we let it look one folder up; in an installed package there is no setup.cfg.
_root = _path.dirname(_path.dirname(__file__))
if _path.isfile(_path.join(_root, "setup.cfg")):
    __path__.append(_root)

if TYPE_CHECKING:
    from shardfeed.converters import AnnotationOptions as AnnotationOptions
    from shardfeed.converters import ColumnOptions as ColumnOptions
    from shardfeed.converters import ImageOptions as ImageOptions
    from shardfeed.converters import LabelOptions as LabelOptions
    from shardfeed.converters import append as append
    from shardfeed.converters import convert as convert
    from shardfeed.converters import export as export
    from shardfeed.converters import filter as filter
    from shardfeed.converters import from_dicts as from_dicts
    from shardfeed.converters import merge as merge
    from shardfeed.converters import open_source as open_source
    from shardfeed.converters import relabel as relabel
    from shardfeed.converters import remove as remove
    from shardfeed.converters import reshard as reshard
    from shardfeed.converters import split as split
    from shardfeed.pipelines.arrays import array_batches as array_batches
    from shardfeed.pipelines.arrays import eval_array_batches as eval_array_batches
    from shardfeed.pipelines.keras import keras_batches as keras_batches
    from shardfeed.pipelines.tensorflow.batches import make_batches as make_batches
    from shardfeed.pipelines.tensorflow.batches import train_batches as train_batches
    from shardfeed.pipelines.tensorflow.evaluate import eval_batches as eval_batches
    from shardfeed.pipelines.tensorflow.evaluate import predict_batches as predict_batches
    from shardfeed.pipelines.torch.loaders import torch_eval_loader as torch_eval_loader
    from shardfeed.pipelines.torch.loaders import torch_loader as torch_loader
    from shardfeed.pipelines.torch.loaders import torch_predict_loader as torch_predict_loader
    from shardfeed.readers import Dataset as Dataset
    from shardfeed.readers import Split as Split
    from shardfeed.readers import open as open
    from shardfeed.readers import verify as verify
    from shardfeed.tools.preview import preview as preview
    from shardfeed.tools.report.report import DatasetReport as DatasetReport
    from shardfeed.tools.report.report import report as report

__all__, __getattr__, __dir__ = lazy_names(__name__, packages=("converters", "pipelines", "readers"))
