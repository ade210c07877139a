"""Every message that advises has a row in the table of remedies, whose advice is typed."""

import re

from remedies.inventory import inventory, options, options_in
from remedies.table import ROWS

# Advice that no test types, as the beginnings of their ids, and why not.
EXCEPTIONS: dict[str, str] = {
    "converters/sources/splits/likely_lists.py: {}; {}, for --split-list": "it is not for alone",
    "converters/commit/staging.py: the original dataset has changed": "a shard that changes while it is linked",
    "converters/commit/hub_commit.py: choose another URL, or give --replace": "the Hub: see test_push_to_hub.py",
    "converters/existing/record_change.py: run `shardfeed verify DIR --deep`": "records that contradict their manifest",
    "converters/existing/relabel.py: rename it instead": "no reader makes a fixed number of classes per record",
    "converters/sources/rare/array_source.py: name the array of labels": "a million labels",
    "converters/sources/parquet.py: name another column": "roles refuse such a column before",
    "converters/sources/mirror.py: name a folder with more room": "a full disk",
    "converters/engines/choose_engine.py: also give --engine ray": "a cluster of Ray",
    "pipelines/caching/cache.py: smaller images": "a full disk",
    "pipelines/caching/copies.py: run `shardfeed verify DIR`": "a shard that changes while it is copied",
    "shardfeed/storage/objects.py: run `shardfeed verify DIR`": "a shard that is cut short while it is copied",
    "readers/shards.py: restore it": "a file that vanishes between two looks",
    "shardfeed/column.py: `shardfeed rebuild DIR`": "behind the checksum of the column",
    "shardfeed/formats/mds.py: give more --shards": "a shard of 4 GB",
    "shardfeed/storage/address.py: `shardfeed push DIR URL`": "the Hub: see test_push_to_hub.py",
    "shardfeed/storage/bucket_destination.py: restore the file": "a bucket",
    "shardfeed/storage/local.py: check the disk": "a disk that fails",
    "tools/bench/": "how fast this machine is",
    "tools/commands/bench_command.py: shardfeed verify": "a benchmark of minutes",
    "tools/commands/convert_command.py: as SOURCE": "the names of arguments, for other messages",
    "tools/commands/push_command.py: next": "a bucket",
    "tools/convert_report.py: {}, listed in": "never said: a dry run has no such line",
}


def matches(row: str, known: list[str]) -> list[str]:
    """The advice of a row: the text as it is, or the one that begins so."""
    return [row] if row in known else [advice for advice in known if advice.startswith(row)]


def test_every_advice_is_typed() -> None:
    """A new message that names an option or a command needs a row, or a reason in EXCEPTIONS."""
    known = [advice for advice, typed in inventory().items() if typed]
    found = {row.advice: matches(row.advice, known) for row in ROWS}
    unclear = [f"{row}: {len(of_row)}" for row, of_row in found.items() if len(of_row) != 1]
    assert unclear == [], "rows of no advice, or of several"
    rows = {of_row[0] for of_row in found.values()}
    excepted = [advice for advice in known if advice.startswith(tuple(EXCEPTIONS))]
    assert sorted({*known} - rows - {*excepted}) == [], "advice without a row in tests/support/remedies"
    assert sorted(rows & {*excepted}) == [], "exceptions with a row"
    unused = [beginning for beginning in EXCEPTIONS if not any(one.startswith(beginning) for one in known)]
    assert unused == [], "exceptions of no advice"


def test_every_option_of_an_advice_is_typed() -> None:
    """An advice with two ways has a row for each."""
    known = [advice for advice, typed in inventory().items() if typed]
    taken: dict[str, set[str]] = {}
    for row in ROWS:
        (advice,) = matches(row.advice, known)
        for way in row.ways:
            whole_command = way.fill.get(way.take, way.take)
            taken.setdefault(advice, set()).update(options_in(f"{whole_command} {way.drop} as {way.take}"))
    missing = {}
    for advice, names in taken.items():
        named = options_in(advice.partition(": ")[2])
        whole = {name for name in named if name.startswith("shardfeed ")}  # the options in it are typed with it
        if left := (whole if whole & names else named) - names:
            missing[advice] = sorted(left)
    assert missing == {}


def test_advice_in_words_names_no_option() -> None:
    """Remedies in words alone do not name options, not even as Python writes them: nobody would type them."""
    words = [advice for advice, typed in inventory().items() if not typed and advice.startswith(("conv", "tools"))]
    names = {flag[2:].replace("-", "_") for flag in options() if flag.startswith("--")}
    found = [advice for advice in words if names & set(re.findall(r"(?<![\w(])(\w+)=", advice.partition(": ")[2]))]
    assert found == ["converters/existing/merge.py: rename a directory, or in Python give names: prefix=[...]"]
