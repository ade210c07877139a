"""Files of captions and classes with bytes changed, cut and doubled: samples, or an error of ours, nothing else."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardfeed.converters.sources.annotations.options import AnnotationOptions
from shardfeed.converters.sources.annotations.tables import captions, classes_csv
from shardfeed.converters.sources.source import findings_of
from shardfeed.errors import ShardfeedError

KARPATHY = {"images": [{"filename": "a.jpg", "split": "train", "cocoid": 1, "sentences": [{"raw": "x"}, {"raw": "y"}]}]}
FILES: dict[str, tuple[str, bytes, Callable[..., object]]] = {
    "token": ("t.token", b"a.jpg#0\tone\na.jpg#1\ttwo\n", captions.read),
    "results": ("r.csv", b"image_name| comment_number| comment\na.jpg| 0| one\na.jpg| 1| two\n", captions.read),
    "table": ("t.csv", b'image,caption,split\na.jpg,"one",train\na.jpg,two,train\n', captions.read),
    "karpathy": ("d.json", json.dumps(KARPATHY).encode(), captions.read),
    "classes": ("_classes.csv", b"filename, cat, dog\na.jpg, 1, 0\n", classes_csv.read),
}
_TOKENS = [
    b"\xff",
    b"\x00",
    b"\n",
    b"\r",
    b'"',
    b"#",
    b"\t",
    b"|",
    b",",
    b"../",
    b"/",
    b"NaN",
    b"1e999",
    b"[",
    b"{",
    b"null",
]


@pytest.mark.parametrize("form", FILES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    edits=st.lists(st.tuples(st.integers(0, 90), st.integers(0, 9), st.sampled_from(_TOKENS)), min_size=1, max_size=4)
)
def test_only_errors_of_ours(tmp_path: Path, form: str, edits: list[tuple[int, int, bytes]]) -> None:
    name, content, read = FILES[form]
    for start, length, token in edits:
        content = content[:start] + token + content[start + length :]
    (tmp_path / "a.jpg").write_bytes(b"\xff\xd8")
    (tmp_path / name).write_bytes(content)
    options = AnnotationOptions()
    module = classes_csv if form == "classes" else captions
    module.recognise(str(tmp_path / name), options)
    try:
        source = read(str(tmp_path / name), options)
    except ShardfeedError:
        return
    assert [sample.key for sample in source] == [b"a.jpg"]  # type: ignore[attr-defined]
    for skipped in findings_of(source).rejected:  # type: ignore[arg-type]
        assert skipped.reason.isprintable()
    for left in getattr(findings_of(source).account, "left_out", ()):  # type: ignore[arg-type]
        assert left.reason.isprintable(), left
