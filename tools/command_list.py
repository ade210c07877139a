"""The commands there are; the module of each, and its parser. A command's module is imported when it is asked for."""

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from shardfeed.tools.parser import CommandParser

COMMANDS = {
    "convert": "image folder or label file -> sharded TFRecords",
    "verify": "compare every byte of a dataset with its manifest",
    "inspect": "what is in a dataset: counts, classes, sizes, first records",
    "preview": "a contact sheet: a row of images for each class",
    "bench": "where the time of an input pipeline goes, and whether a model would wait",
    "append": "a dataset with more samples: what was there stays, and is not written again",
    "merge": "several datasets as one, classes by their names",
    "filter": "the records of a dataset that meet a condition: class in (cat, dog) and height >= 224",
    "relabel": "a dataset with other classes: renamed, put together, dropped",
    "reshard": "a dataset in other shards, or in shards of another format",
    "split": "a dataset cut into other splits",
    "remove": "a dataset without some of its records, and where those still are",
    "export": "a dataset out as files that other tools take: folders, COCO, YOLO, Pascal VOC, masks, CSV",
    "salvage": "a new dataset of every undamaged record of a damaged one",
    "index": "make a dataset's indexes again, or a dataset of TFRecords that someone else wrote",
    "demo": "convert, verify and train on drawn shapes, in a minute",
    "completion": "a script that makes your shell complete commands and options",
}

# Commands that make something else of a dataset.
OPERATIONS = ("append", "merge", "filter", "relabel", "reshard", "split", "remove", "export")


def command_module(command: str) -> ModuleType:
    """The module of a command: it has `add_arguments` and `run`."""
    return import_module(f"shardfeed.tools.commands.{command}_command")


def command_parser(command: str) -> CommandParser:
    """The parser of a command."""
    parser = CommandParser(f"shardfeed {command}", COMMANDS[command])
    command_module(command).add_arguments(parser)
    return parser


def flags_of(parser: CommandParser, command: str, typed: Sequence[str] = ()) -> dict[str, str]:
    """How a command line calls each argument, by its name in Python: what `ShardfeedError.said` words messages with.

    Names that the user typed themselves are left out: as a message's place they are a file of that name.
    """
    found: dict[str, str] = {}
    for action in parser._actions:
        if not action.option_strings:
            found[action.dest] = action.dest.upper()
        for flag in action.option_strings:
            if flag.startswith("--"):
                found[flag[2:].replace("-", "_")] = flag
    found |= getattr(command_module(command), "IN_PYTHON", {})
    return {name: flag for name, flag in found.items() if name not in typed}
