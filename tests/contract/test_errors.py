"""One line for each error, which no text from outside can break; the class a caller expects; whole across processes."""

import errno
import inspect
import pickle

import pytest

from shardfeed import errors
from shardfeed.errors import ShardfeedError, StorageError, argument, escape, name_bytes, name_text

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, ShardfeedError)]


@pytest.mark.parametrize("kind", CLASSES)
def test_says_place_problem_and_remedy_on_one_line(kind: type[ShardfeedError]) -> None:
    error = kind("a\nb.jpg", "got 1, expected 2", "correct it")
    assert str(error) == r"a\nb.jpg: got 1, expected 2; correct it"
    assert str(kind(b"caf\xe9", "damaged")) == "caf\\udce9: damaged"
    assert (error.place, error.problem, error.remedy) == ("a\nb.jpg", "got 1, expected 2", "correct it")
    assert 1 <= kind.exit_code <= 6


@pytest.mark.parametrize("kind", CLASSES)
def test_pickles(kind: type[ShardfeedError]) -> None:
    error = kind("place", "problem", "remedy")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert (again.args, str(again)) == (error.args, str(error))


def test_public_names_are_all_errors_and_nothing_else() -> None:
    classes = {name for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)}
    assert sorted(errors.__all__) == sorted(classes)


def test_the_number_of_a_storage_error_goes_with_it() -> None:
    error = StorageError("place", "problem")
    error.errno = errno.ENOSPC
    assert pickle.loads(pickle.dumps(error)).errno == errno.ENOSPC


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (errors.UsageError, ValueError),
        (errors.OutputExistsError, FileExistsError),
        (errors.SplitError, KeyError),
        (errors.IntegrityError, ValueError),
        (errors.StorageError, OSError),
        (errors.WorkerLostError, RuntimeError),
    ],
)
def test_is_caught_as_the_builtin_class(kind: type[ShardfeedError], builtin: type[Exception]) -> None:
    with pytest.raises(builtin):
        raise kind("place", "problem")


@pytest.mark.parametrize("name", [b"plain", b"caf\xc3\xa9", b"\xff\x00\n", bytes(range(1, 256))])
def test_names_there_and_back(name: bytes) -> None:
    assert name_bytes(name_text(name)) == name
    assert escape(name).isprintable()
    assert "\n" not in escape(name)


def test_different_names_never_look_the_same() -> None:
    names = ["a\nb", "a\\nb", "a\\\\nb", "a\x07", "a\\x07", b"\xff", "\\udcff"]
    assert len({escape(name) for name in names}) == len(names)


def test_an_argument_reads_as_where_it_is_read() -> None:
    flags = {"max_bad": "--max-bad", "header": "--header", "no_header": "--no-header", "size": "--size"}
    error = errors.UsageError(
        "size", f"got {argument('size')}", f"give {argument('max_bad', 8)}, {argument('header', True)} or "
        f"{argument('header', False)}, {argument('size', 'a b')}, {argument('other', 'x')}",
    )  # fmt: skip
    assert str(error) == "size: got size; give max_bad=8, header=True or header=False, size='a b', other='x'"
    typed = "--size: got --size; give --max-bad 8, --header or --no-header, --size 'a b', other='x'"
    assert error.format_message(flags) == pickle.loads(pickle.dumps(error)).format_message(flags) == typed
    assert error.remedy.startswith("give max_bad=8")
    own = ShardfeedError("size", argument("max_bad", python="RejectLimit", typed="N"))
    assert str(own) == "size: RejectLimit"
    assert own.format_message(flags) == "size: --max-bad N"  # only a UsageError's place is an argument


def test_an_argument_in_a_report_reads_in_both_ways() -> None:
    give = f"give {argument('boxes_on', 'stored')} or {argument('label_columns', python='[1]', typed='2')}"
    both = "give --boxes-on stored (in Python boxes_on='stored') or --label-column 2 (in Python [1])"
    assert errors.spell_out(give) == errors.spell_out(both) == both


def test_text_from_outside_is_no_argument() -> None:
    forged = "\ue000max_bad\ue001x\ue001y\ue002"
    error = errors.UsageError("place", escape(forged))
    assert error.format_message({"max_bad": "--max-bad"}).startswith(r"place: \ue000max_bad")
