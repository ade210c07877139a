"""Tests that run a file's lines: `make which-test FILE=converters/conversion.py`. `make coverage` stores them as JSON.

python tests/support/which_test.py --store STORED    from the data of coverage, in the working directory
python tests/support/which_test.py STORED FILE
"""

import ast
import json
import sys
from pathlib import Path

from repository import ROOT


def lines_of_functions(file: Path) -> set[int]:
    """The lines in bodies of functions: those of a module run at its import, whatever the test."""
    nodes = (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef))
    return {line for node in nodes for line in range(node.body[0].lineno, (node.end_lineno or 0) + 1)}


def tests_of_files() -> dict[str, list[str]]:
    """For each file of the product: the tests that run lines of its functions, those that run most of them first."""
    from coverage import Coverage

    stored = Coverage()
    stored.load()
    data = stored.get_data()
    found: dict[str, list[str]] = {}
    for file in map(Path, data.measured_files()):
        inside = lines_of_functions(file)
        lines: dict[str, int] = {}
        for line, tests in data.contexts_by_lineno(str(file)).items():
            for test in tests if line in inside else ():
                lines[test.partition("|")[0]] = lines.get(test.partition("|")[0], 0) + 1
        lines.pop("", None)  # outside tests
        found[str(file.relative_to(ROOT))] = sorted(lines, key=lambda test: (-lines[test], test))
    return found


def main(args: list[str]) -> int:
    """Store what coverage found, or print the tests of a file."""
    if args[:1] == ["--store"] and len(args) == 2:
        Path(args[1]).parent.mkdir(exist_ok=True)
        Path(args[1]).write_text(json.dumps(dict(sorted(tests_of_files().items())), indent=0))
        return 0
    if len(args) != 2:
        print("got no file: make which-test FILE=converters/conversion.py", file=sys.stderr)
        return 2
    tests = json.loads(Path(args[0]).read_text()).get(args[1])
    if tests is None:
        print(f"{args[1]}: not a file that tests ran, or newer than {args[0]}: make coverage", file=sys.stderr)
        return 2
    print(*tests, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
