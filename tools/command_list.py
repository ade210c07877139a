"""The commands there are; the module of each, and its parser. A command's module is imported when it is asked for."""

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from shardfeed.tools.parser import CommandParser

COMMANDS = {
    "convert": "image folder or label file -> sharded TFRecords",
    "verify": "compare every byte of a dataset with its manifest",
    "inspect": "is a dataset all right: splits, classes, image sizes, what is missing",
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
    "rebuild": "indexes and columns of a dataset that are lost or damaged, made again",
    "adopt": "a dataset of TFRecords that someone else wrote, without copying them",
    "demo": "convert, verify and train on drawn shapes, in a minute",
    "completion": "a script that makes your shell complete commands and options",
}

# As `shardfeed --help` lists them: heading -> commands.
GROUPS = {
    "make a dataset, and look at it": ("convert", "inspect", "verify", "preview", "bench"),
    "make datasets from datasets": ("append", "merge", "filter", "relabel", "reshard", "split", "remove", "export"),
    "repair, and take over what others wrote": ("salvage", "rebuild", "adopt"),
    "try and set up": ("demo", "completion"),
}

# What `--help` of a command ends with.
EXAMPLES = {
    "convert": (
        "shardfeed convert photos flowers --split train=0.9,validation=0.1",
        "shardfeed convert photos out --labels labels.csv --dry-run",
        "shardfeed convert instances_train2017.json out --images train2017",
        "shardfeed convert test out --unlabelled",
    ),
    "verify": ("shardfeed verify flowers --deep",),
    "inspect": ("shardfeed inspect flowers", "shardfeed inspect flowers --details --records 2"),
    "preview": ("shardfeed preview flowers -o sheet.png", "shardfeed preview flowers -o roses.png --classes rose"),
    "bench": ("shardfeed bench flowers --model-ms 30",),
    "append": ("shardfeed append flowers more-photos grown",),
    "merge": ("shardfeed merge flowers others both --prefix",),
    "filter": ("shardfeed filter flowers out --where 'class in (rose, tulip) and height >= 96'",),
    "relabel": ("shardfeed relabel flowers two --map map.csv",),
    "reshard": ("shardfeed reshard flowers few --shards 4", "shardfeed reshard flowers tars --to webdataset"),
    "split": ("shardfeed split flowers halves --split train=0.5,validation=0.5",),
    "remove": ("shardfeed remove flowers without --keys keys.txt",),
    "export": (
        "shardfeed export flowers folder --to folder",
        "shardfeed export scenes yolo --to yolo --drop crowds,ids",
    ),
    "salvage": ("shardfeed salvage damaged repaired",),
    "rebuild": ("shardfeed rebuild flowers",),
    "adopt": ("shardfeed adopt their-records --dry-run", "shardfeed adopt their-records out --label-key class"),
    "demo": ("shardfeed demo --epochs 20",),
    "completion": ("shardfeed completion fish > ~/.config/fish/completions/shardfeed.fish",),
}


def command_module(command: str) -> ModuleType:
    """The module of a command: it has `add_arguments` and `run`."""
    return import_module(f"shardfeed.tools.commands.{command}_command")


def command_parser(command: str) -> CommandParser:
    """The parser of a command."""
    parser = CommandParser(f"shardfeed {command}", COMMANDS[command], EXAMPLES[command])
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
