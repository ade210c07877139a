"""How a command line is read: nothing abbreviated, what is mistyped answered with what is near, help on a page."""

import argparse
import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Callable

import pytest

from shardfeed import declared
from shardfeed.converters import MakingOptions
from shardfeed.errors import UsageError
from shardfeed.tools.command_list import COMMANDS, EXAMPLES, GROUPS, command_parser
from shardfeed.tools.commands.completion_command import completion_script
from shardfeed.tools.making import MAKING

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("convert --resize 256 a b", "--resize: no such option; did you mean --resize-shorter?"),
        ("convert --shrads 3 a b", "--shrads: no such option; did you mean --shards"),
        ("convert --max-bda=3 a b", "--max-bda: no such option; did you mean --max-bad or --max-bad-objects?"),
        ("convert a b --xyz", "--xyz: no such option; `shardfeed convert --help` lists all"),
        ("convert a b c", "shardfeed convert: got 'c', one argument too many"),
        ("convert a", "shardfeed convert: expected OUT too"),
        ("convert a b --check decodee", "--check: got 'decodee', expected one of decode, header, none; did you mean"),
        ("convert a b --seed x", "--seed: invalid int value: 'x'"),
        ("convert a b --shards", "--shards: expected one argument"),
        ("convert a b --size 3x4x5", "--size: got '3x4x5', expected HEIGHTxWIDTH"),
        (f"convert a b --size 3x{'9' * 5000}", "--size: got '3x999"),
    ],
)
def test_an_option_that_is_not_meant(run: Run, typed: str, said: str) -> None:
    code, out, err = run(*typed.split())
    assert (code, out) == (2, "")
    assert err.startswith(f"shardfeed: {said}")
    assert err.splitlines()[1:] == ["usage: shardfeed convert SOURCE OUT [options]"]


def test_export_to_shards_names_reshard(run: Run) -> None:
    code, _, err = run("export", "a", "b", "--to", "webdataset")
    assert (code, "csv; `shardfeed reshard DATASET OUT --to webdataset` writes" in err) == (2, True)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("convrt a b", "shardfeed: convrt: no such command; did you mean convert?"),
        ("help inspct", "shardfeed: inspct: no such command; did you mean inspect?"),
        ("--versoin", "shardfeed: --versoin: no such option; did you mean --version?"),
        ("frobnicate", "shardfeed: frobnicate: no such command; `shardfeed --help` lists all"),
    ],
)
def test_a_command_that_is_not_meant(run: Run, typed: str, said: str) -> None:
    code, out, err = run(*typed.split())
    assert (code, out) == (2, "")
    assert err.startswith(said)
    assert len(err.splitlines()) == 1


def test_an_option_that_must_be_given_is_named_as_typed_and_in_the_usage(run: Run) -> None:
    code, out, err = run("export", "a")
    assert (code, out) == (2, "")
    first, usage = err.splitlines()
    assert "OUT and --to" in first
    assert usage == "usage: shardfeed export DATASET OUT --to {folder,coco,yolo,voc,masks,csv} [options]"
    assert run("split", "a", "b")[2].endswith("usage: shardfeed split DATASET OUT --split A=F,B=F [options]\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_no_option_can_be_abbreviated(command: str) -> None:
    parser = command_parser(command)
    for action in parser._actions:
        for name in action.option_strings:
            if name.startswith("--") and len(name) > 4 and name[:-1] not in parser._option_string_actions:
                with pytest.raises(UsageError, match="no such option"):
                    parser.parse_args([name[:-1], "1"])


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_value_is_not_an_option_left_out(command: str) -> None:
    """A script with an empty variable: `--class-names "$NAMES"`."""
    parser = command_parser(command)
    _, _, *valid = shlex.split(EXAMPLES[command][0].split(" > ")[0])
    for action in parser._actions:
        if action.option_strings and action.nargs != 0:
            with pytest.raises(UsageError) as caught:
                rest = valid if action.dest not in ("keys", "shards") else valid[:2]  # with options that exclude others
                parser.parse_args([*rest, action.option_strings[-1], ""])
            assert caught.value.place == action.option_strings[-1]
            assert "''" in caught.value.problem


def test_operations_take_what_their_commands_offer() -> None:
    """A field that `convert` gets has to be a key of MakingOptions, too."""
    assert {option.name for option in declared.typed(*MAKING)} <= MakingOptions.__optional_keys__


def test_an_empty_argument_is_no_path(run: Run) -> None:
    code, _, err = run("convert", "photos", "")
    assert (code, err.splitlines()[0]) == (
        2,
        "shardfeed: OUT: got '', expected a value; check the shell variable that should hold it",
    )
    assert run("merge", "a", "", "b")[2].startswith("shardfeed: DATASETS: got ''")


def test_what_stands_after_two_dashes_is_no_option() -> None:
    args = command_parser("convert").parse_args(["--", "--a", "--b"])
    assert (args.source, args.out) == ("--a", "--b")


def test_help(run: Run) -> None:
    for typed in (["help"], ["--help"], ["-h"]):
        code, out, _ = run(*typed)
        assert code == 0
        assert all(f"  {command} " in out for command in COMMANDS)
    assert run("help", "verify") == run("verify", "--help") == run("verify", "-h")
    assert run("--version")[1].startswith("shardfeed ")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_a_page(run: Run, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    code, out, _ = run(command, "--help")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith(f"usage: shardfeed {command} ")
    assert len(lines) < 78
    assert max(map(len, lines)) <= 100
    assert "%%" not in out
    shown = [action for action in command_parser(command)._actions if action.help != argparse.SUPPRESS]
    for action in shown:
        assert all(name in out for name in action.option_strings)


def test_typed_alone_it_prints_the_help_and_is_no_success(run: Run) -> None:
    code, out, err = run()
    assert (code, out) == (2, "")
    assert err == run("--help")[1]


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_help_is_as_wide_as_the_terminal(run: Run, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert max(map(len, run("--help")[1].splitlines())) <= min(columns, 100)
    options = run("verify", "--help")[1].split("\nexamples:")[0].split("\n", 1)[1]
    assert max(map(len, options.splitlines())) <= min(columns, 100)


def test_every_command_is_in_one_group() -> None:
    assert sorted(command for commands in GROUPS.values() for command in commands) == sorted(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_ends_with_examples_that_can_be_typed(run: Run, command: str) -> None:
    shown = run(command, "--help")[1].split("examples:\n")[1].splitlines()
    assert shown == [f"  {example}" for example in EXAMPLES[command]]
    for line in shown:
        program, name, *rest = shlex.split(line.split(" > ")[0])
        assert (program, name) == ("shardfeed", command)
        command_parser(command).parse_args(rest)
        assert len(line) <= 80


@pytest.mark.parametrize(
    ("setting", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colour_is_for_terminals_that_want_it(setting: dict[str, str], coloured: bool) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment |= {"TERM": "xterm-256color"} | setting
    shown = {}
    for typed in ("--help",) if setting else ("--help", "verify --help", "nonsense"):
        master, slave = pty.openpty()
        command = [sys.executable, "-m", "shardfeed.tools.cli", *typed.split()]
        with subprocess.Popen(command, stdout=slave, stderr=slave, env=environment):
            os.close(slave)
            shown[typed] = b""
            while part := _read(master):
                shown[typed] += part
        os.close(master)
    assert {typed: b"\x1b[" in text for typed, text in shown.items()} == dict.fromkeys(shown, coloured)
    assert setting or b"no such command" in shown["nonsense"]


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other end is closed
        return b""


def test_what_numbers_classes_is_in_the_help(run: Run) -> None:
    """People with records of others need it, who are told so only where numbers do not begin at 0."""
    out = run("convert", "--help")[1]
    assert "--label-offset N" in out
    assert "--label-map FILE" in out


# What a user has typed before the tab key -> completions that must be among those offered.
COMPLETED = {
    "shardfeed ": {"convert", "inspect", "completion"},
    "shardfeed ver": {"verify"},
    "shardfeed help ins": {"inspect"},
    "shardfeed convert --resi": {"--resize-shorter"},
    "shardfeed convert a b --check ": {"decode", "header", "none"},
    "shardfeed convert a b --check h": {"header"},
    "shardfeed bench d --order gl": {"global"},
    "shardfeed completion ": {"bash", "zsh", "fish"},
    "shardfeed convert pho": set(),  # file names, which the shell itself completes
}


def test_bash_completes() -> None:
    asked = "".join(
        f"COMP_WORDS=({' '.join(typed.split())}{' ' + chr(39) * 2 if typed.endswith(' ') else ''}); "
        'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _shardfeed; echo "${COMPREPLY[*]}"\n'
        for typed in COMPLETED
    )
    script = f'eval "$({sys.executable} -m shardfeed.tools.cli completion bash)"\n{asked}complete -p shardfeed\n'
    done = subprocess.run(["bash", "-uc", script], capture_output=True, text=True, check=True)
    *answers, registered = done.stdout.splitlines()
    for (typed, expected), answer in zip(COMPLETED.items(), answers, strict=True):
        assert expected <= set(answer.split()), typed
        assert len(answer.split()) < 30
    assert (answers[3], answers[-1]) == ("--resize-shorter", "")
    assert registered == "complete -o default -F _shardfeed shardfeed"


def test_other_shells_are_told_the_same() -> None:
    parsers = {command: command_parser(command) for command in COMMANDS}
    zsh, fish = completion_script("zsh", parsers), completion_script("fish", parsers)
    assert zsh.endswith(completion_script("bash", parsers))
    assert "bashcompinit" in zsh
    assert "complete -c shardfeed -n '__fish_seen_subcommand_from convert' -l check -xa 'decode header none'" in fish
    assert all(f"-xa {command} -d '" in fish for command in COMMANDS)
