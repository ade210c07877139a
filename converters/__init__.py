"""Samples in, committed dataset out: `convert(ImageFolder("photos"), "dataset")`. Never imports TensorFlow.

A source of your own needs `len(source)`, `source[i]` and two attributes: see `shardfeed.converters.source`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardfeed.converters.adoption import Survey, adopt, survey
    from shardfeed.converters.conversion import convert
    from shardfeed.converters.file_names import FileNames
    from shardfeed.converters.image_folder import ImageFolder
    from shardfeed.converters.image_options import ImageOptions
    from shardfeed.converters.label_file import LabelFile
    from shardfeed.converters.reindex import Rebuilt, rebuild
    from shardfeed.converters.report import Report
    from shardfeed.converters.salvage_report import Salvaged
    from shardfeed.converters.salvaging import salvage
    from shardfeed.converters.source import Sample, Source, SourceFile
    from shardfeed.converters.writing import Progress

__all__ = [
    "FileNames",
    "ImageFolder",
    "ImageOptions",
    "LabelFile",
    "Progress",
    "Rebuilt",
    "Report",
    "Salvaged",
    "Sample",
    "Source",
    "SourceFile",
    "Survey",
    "adopt",
    "convert",
    "rebuild",
    "salvage",
    "survey",
]

_ROOMS = {
    "FileNames": "file_names",
    "ImageFolder": "image_folder",
    "ImageOptions": "image_options",
    "LabelFile": "label_file",
    "Progress": "writing",
    "Rebuilt": "reindex",
    "Report": "report",
    "Salvaged": "salvage_report",
    "Sample": "source",
    "Source": "source",
    "SourceFile": "source",
    "Survey": "adoption",
    "adopt": "adoption",
    "convert": "conversion",
    "rebuild": "reindex",
    "salvage": "salvaging",
    "survey": "adoption",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module 'shardfeed.converters' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"shardfeed.converters.{_ROOMS[name]}"), name)
