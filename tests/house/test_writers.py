"""Every place that writes a file or a state, and how what it wrote is read back before it counts: there is no other."""

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from repository import ROOT

PACKAGES = ("shardfeed", "converters", "readers", "pipelines", "tools")
FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]

# Functions that read back what they are given; one of them, or a writer that is listed below, is called by each writer.
READ_BACK = {"checked_text", "written_manifest", "written", "_log_of", "_checked_line", "to_json"}

# The function that writes -> the function of READ_BACK that it calls before.
CHECKED = {
    ("shardfeed/manifest.py", "write_manifest"): "written_manifest",
    ("shardfeed/formats/tfrecord.py", "_Sink.__exit__"): "written",
    ("shardfeed/storage/own_files.py", "OwnFiles._take"): "checked_text",
    ("converters/commit/staging.py", "Staging._write_plan"): "checked_text",
    ("converters/existing/adopt.py", "_write"): "written",
    ("converters/shards/receipts.py", "save_receipt"): "_checked_line",
    ("pipelines/caching/sparse.py", "SparseCopy.__init__"): "written_manifest",
    ("pipelines/caching/sparse.py", "SparseCopy._resume"): "_log_of",
    ("pipelines/orders/position.py", "Position.save"): "to_json",
    ("pipelines/tensorflow/backup.py", "SavedState.save"): "checked_text",
}

# Writers that call one of those: the manifest and the receipts have one way to their files.
THROUGH = {
    ("converters/commit/finish.py", "stage_manifest", "write_manifest"),
    ("converters/conversion.py", "write_missing", "save_receipt"),
    ("converters/engines/on_node.py", "write_in_place", "save_receipt"),
    ("converters/engines/on_node.py", "_send", "save_receipt"),
    ("converters/existing/salvage.py", "_copy_shard", "save_receipt"),
    ("converters/shards/write_shard.py", "write_shard", "save_receipt"),
    ("pipelines/caching/copies.py", "write_copy", "write_manifest"),
}

_SHARD = "a shard: each record has its checksums, and its reader is the same class"
_EXPORT = "an export: files for other programs; tests of each format read them back"

# Other writers, and why nothing is read back there.
REASONS = {
    ("shardfeed/formats/arrayrecord.py", "_ArrayRecord.__init__"): _SHARD,
    ("shardfeed/formats/container.py", "ContainerSink.__init__"): _SHARD,
    ("shardfeed/formats/mds.py", "_MdsShard.__init__"): _SHARD,
    ("shardfeed/formats/parquet.py", "_Parquet.__init__"): _SHARD,
    ("shardfeed/formats/tfrecord.py", "_Sink.__init__"): _SHARD,
    ("shardfeed/formats/webdataset.py", "_Tar.__init__"): _SHARD,
    ("shardfeed/storage/local.py", "write_file"): "the function itself",
    ("shardfeed/storage/local.py", "link_or_copy"): "bytes of a file of a dataset, compared with its manifest",
    ("shardfeed/storage/own_files.py", "OwnFiles._opened"): "opens; content comes by `write` and `put`",
    ("shardfeed/storage/own_files.py", "created_files"): "reads",
    ("shardfeed/testing/shard_format.py", "ShardFormatContract.damageable"): "a test",
    ("shardfeed/testing/shard_format.py", "ShardFormatContract.test_a_changed_beginning_is_not_continued"): "a test",
    ("shardfeed/testing/shard_format.py", "_put"): "a test",
    (
        "converters/commit/finish.py",
        "_write_columns",
    ): "a column: its header and values are those of column.py",
    ("converters/commit/finish.py", "stage_manifest"): "sidecars: lists and descriptions for people and other programs",
    ("converters/commit/staging.py", "_write_inputs"): "a line per input, which only words a note; damage is survived",
    (
        "converters/commit/upload.py",
        "UploadByNodes.finished.look",
    ): "a receipt of a bucket, loaded at once",
    ("converters/engines/node_probe.py", "Probe.__init__"): "random bytes, which nodes compare",
    ("converters/existing/passport.py", "card"): "the card and Croissant: for people and other programs",
    ("converters/existing/pull.py", "pull"): "the bytes of a manifest that was parsed, and files beside a dataset",
    ("converters/existing/pull.py", "_copy_cards"): "the card and Croissant: for people and other programs",
    ("converters/existing/pull.py", "_fetch"): "a file of a dataset, compared with its manifest",
    (
        "converters/existing/rebuild.py",
        "rebuild",
    ): "indexes and columns, compared with the manifest",
    ("converters/sources/export_files.py", "StreamedFile.__init__"): _EXPORT,
    ("converters/sources/export_files.py", "_write"): _EXPORT,
    ("converters/sources/files/unpack.py", "UnpackedFile.__init__"): "a temporary file of foreign bytes",
    ("converters/sources/mirror.py", "Mirror._copy"): "a temporary file of foreign bytes",
    ("pipelines/caching/client.py", "FetcherClient._file"): "a lock and a log for people",
    ("pipelines/caching/sparse.py", "SparseCopy.read_indexes"): "an index that was parsed and compared before",
    ("pipelines/caching/sparse.py", "SparseCopy._note"): "two numbers of 64 bits, while the lock is held",
    ("pipelines/tensorflow/backup.py", "_write_variable"): "an array, whose CRC-32 `zipfile` compares; of numbers only",
    ("tools/commands/bench_command.py", "_quiet_stderr"): "a terminal",
    ("tools/commands/demo_command.py", "_stderr_in"): "a log for people",
    ("tools/commands/preview_command.py", "preview"): "a picture for people",
    ("tools/progress.py", "EventLog.__init__"): "a log for other programs",
    ("tools/progress.py", "ProgressReporter.preparing"): "a log for other programs",
    ("tools/progress.py", "ProgressReporter.converting"): "a log for other programs",
    ("tools/report/measure.py", "measure"): "measured again if it cannot be loaded",
    ("tools/report/report.py", "DatasetReport.save"): "a page for people",
}

# Who asks for the bytes of a manifest without writing them to a file.
BYTES_OF_MANIFEST = {
    ("shardfeed/manifest.py", "parse_manifest"): "compares them",
    ("shardfeed/manifest.py", "written_manifest"): "has them read back",
    ("converters/planning/append_target.py", "AppendTarget.__post_init__"): "a checksum of them",
    ("converters/existing/dataset_source.py", "Opened.__init__"): "a checksum of them",
    ("pipelines/caching/sparse.py", "SparseCopy.__init__"): "compares them",
}

_WRITERS = {"write_file", "NewFile", "write_manifest", "save_receipt", "FileIO", "savez"}
_METHODS = {"write_text", "write_bytes", "tofile"}
_OPENERS = {"open", "fdopen"}
_STREAMS = ("_files.write", "_log.write", "_list.write")


def _scoped_calls(node: ast.AST, scope: str = "") -> Iterator[tuple[str, ast.Call]]:
    """Each call, with the qualified name of the function that it is in."""
    for child in ast.iter_child_nodes(node):
        inner = scope
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{scope}.{child.name}".lstrip(".")
        if isinstance(child, ast.Call):
            yield inner, child
        yield from _scoped_calls(child, inner)


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def _writes(call: ast.Call) -> bool:
    name, whole = _name(call), ast.unparse(call.func)
    if name in _WRITERS | _METHODS or whole.endswith(_STREAMS):
        return True
    given = [*call.args[1:], *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    modes = [value.value for value in given if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    return name in _OPENERS and any({*mode} <= {*"rwaxbt+"} and {*mode} & {*"wax+"} for mode in modes)


def writers(tree: ast.AST) -> Counter[tuple[str, str]]:
    """How often each function calls what writes: by its name and that of the call."""
    return Counter((scope, _name(call)) for scope, call in _scoped_calls(tree) if _writes(call))


@cache
def _tree(path: Path) -> ast.AST:
    return ast.parse(path.read_text())


@cache
def _all_writers() -> frozenset[tuple[str, str, str]]:
    return frozenset((str(path.relative_to(ROOT)), *place) for path in FILES for place in writers(_tree(path)))


@pytest.mark.promise(72)
def test_each_writer_reads_back_or_says_why_not() -> None:
    listed = CHECKED.keys() | REASONS.keys()
    found = {(file, scope) for file, scope, call in _all_writers() if (file, scope, call) not in THROUGH}
    assert found == listed, "have it read back by its own reader before it counts, or take the name off the list"


def test_those_that_go_through_another_are_there() -> None:
    assert _all_writers() >= THROUGH


@pytest.mark.parametrize("place", CHECKED)
def test_the_reader_is_called(place: tuple[str, str]) -> None:
    file, function = place
    calls = {_name(call) for scope, call in _scoped_calls(_tree(ROOT / file)) if scope == function}
    assert CHECKED[place] in calls & READ_BACK


def test_the_bytes_of_a_manifest_reach_a_file_in_one_way() -> None:
    found = {
        (str(path.relative_to(ROOT)), scope)
        for path in FILES
        for scope, call in _scoped_calls(_tree(path))
        if ast.unparse(call.func).endswith("manifest.to_bytes")
    }
    assert found == BYTES_OF_MANIFEST.keys(), "call written_manifest or write_manifest"


def test_what_counts_as_writing() -> None:
    code = """
def writes():
    write_file(p, d); NewFile(p); local.write_file(p, d); open(p, "wb"); os.fdopen(f, mode="a"); Path(p).write_text(t)
    np.savez(f, **arrays); self._log.write(b"")
class Odd:
    def reads(self):
        open(p); open(p, "rb"); open(p, encoding="ascii"); file.read("w"); sink.write(record)
"""
    found = writers(ast.parse(code))
    assert {scope for scope, _ in found} == {"writes"}
    assert found.total() == 8


def test_paths_are_where_the_lists_say() -> None:
    for name, *_ in [*CHECKED, *REASONS, *THROUGH, *BYTES_OF_MANIFEST]:
        assert Path(ROOT / name).is_file(), name
