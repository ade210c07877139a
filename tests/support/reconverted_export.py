"""An export converted again as its report says, and records by split and name."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import shardfeed
from shardfeed.converters import Exported
from shardfeed.readers.dataset import Dataset
from shardfeed.schema import FILENAME
from shardfeed.tools.cli import main


def converted_again(report: Exported, out: Path, which: int = 0) -> Dataset:
    """By the command that the report shows."""
    words = shlex.split(report.convert_commands[which])
    assert words[0] == "shardfeed"
    words[words.index("NEW")] = str(out)
    assert main([*words[1:], "--quiet", "--workers", "1"]) == 0
    return shardfeed.open(out)


def records(data: Dataset) -> Mapping[str, Mapping[bytes, Mapping[str, Any]]]:
    """By split, and then by name."""
    return {name: {bytes(record[FILENAME]): record for record in split} for name, split in data.items()}  # type: ignore[arg-type]
