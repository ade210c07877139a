"""The list of commands; the module of each, and its parser. A command's module is imported on demand."""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from shardfeed.errors import escape, printable
from shardfeed.text import listing
from shardfeed.tools.parser import CommandParser

if TYPE_CHECKING:
    from shardfeed.plugins import Plugin

COMMANDS = {
    "convert": "convert images with labels or annotations to shards",
    "verify": "compare every byte of a dataset with its manifest",
    "inspect": "show splits, classes and image sizes, and report missing files",
    "preview": "draw a contact sheet: a row of images for each class, or draws of one image",
    "report": "create an HTML page about a dataset: findings, pictures, figures",
    "bench": "measure an input pipeline and find its slow stages",
    "append": "add samples to a dataset, without rewriting its shards",
    "merge": "merge several datasets into one, matching classes by name",
    "filter": "keep the records that meet a condition",
    "relabel": "rename, merge or drop classes",
    "reshard": "change the number, size or format of the shards",
    "split": "divide the records into new splits",
    "remove": "remove records, and list where copies of them remain",
    "export": "export to class folders, COCO, YOLO, Pascal VOC, masks or CSV",
    "salvage": "copy the undamaged records of a dataset to a new dataset",
    "rebuild": "restore missing or damaged indexes and columns",
    "adopt": "use existing TFRecords without copying them",
    "card": "write croissant.json and a dataset card",
    "push": "copy a dataset to a bucket or to the Hugging Face Hub",
    "pull": "copy a dataset from a bucket or a web server",
    "demo": "convert, verify and train on drawn shapes, in a minute",
    "completion": "print a shell completion script for commands and options",
}

# As `shardfeed --help` lists them: heading -> commands.
GROUPS = {
    "create and check a dataset": ("convert", "inspect", "verify", "preview", "report", "bench"),
    "derive datasets from datasets": ("append", "merge", "filter", "relabel", "reshard", "split", "remove", "export"),
    "publish, copy to buckets and back": ("card", "push", "pull"),
    "repair, and use existing TFRecords": ("salvage", "rebuild", "adopt"),
    "try and set up": ("demo", "completion"),
}

# Commands without a module: their functions in `shardfeed.converters` declare the options.
OPERATIONS = ("merge", "filter", "relabel", "reshard", "split", "remove")

# The last lines of a command's `--help`.
EXAMPLES = {
    "convert": (
        "shardfeed convert photos flowers --split train=0.9,validation=0.1",
        "shardfeed convert instances_train2017.json out --images train2017",
    ),
    "verify": ("shardfeed verify flowers --deep",),
    "inspect": ("shardfeed inspect flowers", "shardfeed inspect flowers --details --records 2"),
    "preview": (
        "shardfeed preview flowers -o sheet.png",
        "shardfeed preview flowers -o roses.png --classes rose",
        "shardfeed preview flowers -o sheet.png --augment simclr",
    ),
    "report": ("shardfeed report flowers -o flowers.html", "shardfeed report flowers flowers-2 -o changes.html"),
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
    "card": ("shardfeed card flowers --license cc-by-4.0 --creator 'Ada Byron'",),
    "push": ("shardfeed push flowers s3://bucket/flowers", "shardfeed push flowers hf://datasets/ada/flowers"),
    "pull": ("shardfeed pull s3://bucket/flowers flowers",),
    "demo": ("shardfeed demo --epochs 20",),
    "completion": ("shardfeed completion fish > ~/.config/fish/completions/shardfeed.fish",),
}


def installed_commands() -> "dict[str, Plugin]":
    """The commands of other installed packages, by name."""
    from shardfeed.plugins import installed  # not above: most commands are ours

    return installed("command", COMMANDS)


def command_module(command: str) -> Any:
    """The module of a command, or what stands for it: it has `add_arguments` and `run`; a package's has `HELP`, too.

    Raises UsageError for an installed package's that cannot be loaded.
    """
    if command in OPERATIONS:
        from shardfeed.tools.making import OperationCommand  # not above: the other commands do without

        return OperationCommand(command)
    if command in COMMANDS:
        return import_module(f"shardfeed.tools.commands.{command}_command")
    return PackageCommand(installed_commands()[command])


class PackageCommand:
    """A command of an installed package: what its code raises is an error that names the package.

    Raises UsageError if it cannot be loaded.
    """

    _PARTS = ("HELP", "add_arguments", "run")

    def __init__(self, plugin: "Plugin") -> None:
        self._plugin = plugin
        expected = f"a module with {listing(self._PARTS)}"
        self._module = plugin.load(expected, lambda found: all(hasattr(found, part) for part in self._PARTS))
        with plugin.blamed():
            about = self._module.HELP
        if not isinstance(about, str):
            raise plugin.error(f"has {escape(repr(about)[:60])} as HELP, expected text")
        self.HELP = printable(about)

    def add_arguments(self, parser: CommandParser) -> None:
        """Add its options, and see that the help about them can be shown."""
        with self._plugin.blamed():
            self._module.add_arguments(parser)
            parser.format_help()

    def parsed(self, parser: CommandParser, typed: Sequence[str]) -> Any:
        """Parse its arguments, which functions of the package may do."""
        with self._plugin.blamed(SystemExit):  # for --help
            return parser.parse_args(typed)

    def run(self, args: Any) -> int:
        """Run it, and return its exit code."""
        with self._plugin.blamed(SystemExit, BrokenPipeError):
            code = self._module.run(args)
        if code is None:
            return 0
        if type(code) is not int or not 0 <= code < 256:
            raise self._plugin.error(
                f"returned {escape(repr(code)[:60])} from run, expected an exit code from 0 to 255"
            )
        return code


def command_parser(command: str) -> CommandParser:
    """The parser of a command."""
    module = command_module(command)
    about = (COMMANDS[command], EXAMPLES[command]) if command in COMMANDS else (module.HELP, ())
    parser = CommandParser(f"shardfeed {command}", *about)
    module.add_arguments(parser)
    return parser


def flags_of(parser: CommandParser, command: str, typed: Sequence[str] = ()) -> dict[str, str]:
    """Map arguments by their names in Python to their flags, for `ShardfeedError.format_message`.

    Names equal to a typed argument are left out: as a message's place, they mean a file of that name.
    """
    found: dict[str, str] = {}
    for action in parser._actions:
        if not action.option_strings:
            found[action.dest] = str(action.metavar or action.dest).upper()
        for flag in action.option_strings:
            if flag.startswith("--"):
                found[flag[2:].replace("-", "_")] = flag
                found.setdefault(action.dest, flag)
    found |= getattr(command_module(command), "PYTHON_NAMES", {})
    return {name: flag for name, flag in found.items() if name not in typed}
