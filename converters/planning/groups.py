"""Groups of samples that belong together, such as those of one patient, video or original: no group is in two splits.

Links between samples are compared by 16 bytes: the keyed hash of a column's value or of a part of the name, or the
beginning of a file's SHA-256. Samples that are linked, even through others, form one group.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shardfeed.column import column_dtype, parse_column
from shardfeed.converters.planning.append_target import AppendTarget, ColumnsBefore
from shardfeed.converters.planning.group_shares import draw_group_splits, join
from shardfeed.converters.planning.options import PlanOptions
from shardfeed.converters.planning.split_shares import draw
from shardfeed.converters.rejects import RejectedError
from shardfeed.converters.sources.guard import EVERY, report_progress
from shardfeed.converters.sources.reading import ReadAhead, read_image
from shardfeed.converters.sources.source import FinishedRecord, Sample, Source
from shardfeed.errors import LeakError, UsageError, argument, escape, name_bytes, name_text
from shardfeed.manifest import SplitInfo
from shardfeed.schema import FILENAME, SHA256, Schema
from shardfeed.text import in_usual_order, number, some

_NONE = bytes(16)  # of a sample that shares nothing
_EXAMPLES = 3
_TOGETHER = 256  # files that are read ahead together, and samples in memory


def feature_of_groups(column: str, schema: Schema) -> str:
    """Return the feature with the values of a column. Raises UsageError unless it has one value per sample."""
    names = (schema.key(column), schema.key(f"image/{column}"), schema.key(f"image/{column}/label"))
    scalars = [key for key, of_key in schema.features.items() if of_key.scalar and schema.kind(key) != "image"]
    if found := [name for name in names if name in scalars]:
        return str(found[0])
    problem = f"got {column!r}, expected a feature with one value per sample: there are {', '.join(sorted(scalars))}"
    raise UsageError("group_column", problem, f"store the column, with {argument('text_columns')} for example")


@dataclass(frozen=True)
class GroupShares:
    """Shares that groups allow: `asked` and `got` by split, of the `images` that were drawn.

    `groups`: number of groups, `largest`: images of the largest group.
    """

    images: int
    groups: int
    largest: int
    asked: Mapping[str, float]
    got: Mapping[str, float]

    def note(self) -> str:
        """A sentence about them."""
        names = in_usual_order(self.asked)
        asked = ", ".join(f"{name} {100 * self.asked[name]:.4g}%" for name in names)
        got = ", ".join(f"{100 * self.got[name]:.4g}%" for name in names)
        what = f"{number(self.images, 'image')} in {number(self.groups, 'group')}, the largest has {self.largest:,}"
        return f"{what}; asked for {asked}, got {got}"


class Members:
    """The samples of a plan, after those of the dataset that it appends to, and their groups.

    First `add` takes every sample, then `draw` draws splits. `shares`: the shares that could be reached. Takes 16 bytes
    per sample for each rule, and the dataset's keys.
    """

    shares: GroupShares | None = None

    def __init__(self, options: PlanOptions, schema: Schema, *, no_leaks: bool) -> None:
        groups, onto = options.groups, options.onto
        self._options, self._groups, self._no_leaks = options, groups, no_leaks
        self._feature = None if groups.column is None else feature_of_groups(groups.column, schema)
        self._names = schema.class_names.get(self._feature or "", ())
        self._pattern = None if groups.pattern is None else groups.compiled()
        self._shared = {"column": bytearray(), "pattern": bytearray()}
        self._hashes = bytearray() if no_leaks or groups.duplicates else None
        self._stored: dict[str, int] = {}  # records by split
        self._keys: list[bytes] = []  # of these
        self._unlike: list[bytes] = []
        if onto is not None:
            for name, info in onto.manifest.splits.items():
                if info.records:
                    self._add_stored(onto, name, info)

    def _add_stored(self, onto: AppendTarget, name: str, info: SplitInfo) -> None:
        columns = ColumnsBefore(onto, info)

        def values(key: str) -> Sequence[Any]:
            if key not in columns:
                problem = f"has no column of {escape(key)}, by which groups are found"
                there = key in onto.schema.features
                remedy = "`shardfeed reshard` adds it" if there else "convert all images to a new dataset instead"
                raise UsageError(onto.directory, problem, remedy)
            return parse_column(columns[key], info.records, column_dtype(onto.schema, key), key).tolist()

        keys = values(FILENAME)
        for key, value in zip(keys, values(self._feature) if self._feature else keys, strict=True):
            self._add(key, value)
        if self._hashes is not None:
            self._hashes += b"".join(bytes.fromhex(value.decode())[:16] for value in values(SHA256))
        self._stored[name] = info.records
        self._keys += keys

    def add(self, sample: Sample) -> None:
        """Add the next sample."""
        self._add(sample.key, sample.features.get(self._feature) if self._feature else None)

    def _add(self, key: bytes, value: Any) -> None:
        if self._feature is not None:
            self._shared["column"] += self._drawn(self._text(value))
        if self._pattern is not None:
            name = key if "/" in self._pattern.pattern else key.rpartition(b"/")[2]
            found = self._pattern.fullmatch(name_text(name))
            if found is None:
                self._unlike.append(key)
            self._shared["pattern"] += self._drawn(name_bytes(found["group"] or "") if found else b"")

    def _text(self, value: Any) -> bytes:
        if self._names and isinstance(value, int | np.integer):  # with more classes they have other numbers
            value = self._names[int(value)] if 0 <= value < len(self._names) else ""
        elif isinstance(value, float | np.floating):
            value = float(np.float32(value))
        return value if isinstance(value, bytes) else name_bytes(str(value))

    def _drawn(self, text: bytes) -> bytes:
        return draw(text, self._options.seed) if text else _NONE

    def draw(
        self, source: Source, split_of: np.ndarray, names: Sequence[str], draws: np.ndarray, labels: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Draw a split for each sample with `split_of` < 0, else an index into `names`; see draw_group_splits.

        draws: uint64 [n], each sample's draw, which decides if no column and no name does.
        """
        shares, by, open_ = self._options.fractions, self._options.split_by, split_of < 0
        if shares is None:
            problem = "groups are kept together when splits are drawn, and there are no shares"
            shown = argument("split", python="split={'train': 0.9, 'test': 0.1}", typed="train=0.9,test=0.1")
            raise UsageError("split", problem, f"for example {shown}")
        first, group = len(self._keys), self._joined(self._rules())
        rank, lot = np.full(len(group), 2), np.concatenate([np.zeros(first, np.uint64), draws])
        rank[:first] = 3
        for place, shared in reversed([*enumerate(filter(None, self._shared.values()))]):
            values = np.frombuffer(shared, "<u8").reshape(-1, 2)
            has = values.any(axis=1)
            rank[has], lot[has] = place, values[has, 0]
        # The least that any of the group drew: most new samples of a group do not change it.
        order = np.lexsort((lot, rank, group))
        of_group = lot[order[np.searchsorted(group[order], np.arange(group.max() + 1))]]
        splits, code = self._splits(split_of, names)
        fixed = np.full(len(of_group), len(splits))
        np.minimum.at(fixed, group[code >= 0], code[code >= 0])
        fixed[fixed == len(splits)] = -1
        groups = group[first:][open_]
        found = draw_group_splits(groups, of_group, labels[open_], shares, by, fixed, splits)
        sizes = np.bincount(groups)
        got = {name: len(members) / len(groups) for name, members in found.items() if name in shares}
        self.shares = GroupShares(len(groups), int((sizes > 0).sum()), int(sizes.max()), dict(shares), got)
        return found

    def read_hashes(self, source: Source) -> None:
        """Hash the files that may be duplicates: files of equal size, or all files that are appended."""
        if self._hashes is None:
            return
        first, count = len(self._keys), len(source)
        sizes = np.fromiter((_size(source[i]) for i in range(count)), np.int64, count)
        again = np.full(count, first > 0)
        order = np.argsort(sizes, kind="stable")
        same = sizes[order[1:]] == sizes[order[:-1]]
        again[order[1:][same]] = again[order[:-1][same]] = True
        again[sizes == 0] = False
        self._hashes += bytes(16 * count)
        places = np.flatnonzero(again).tolist()
        for done in range(0, len(places), _TOGETHER):
            if not done % EVERY:
                report_progress("planning", done, len(places))
            together = places[done : done + _TOGETHER]
            samples = [replace(source[i], raster=None) for i in together]  # their masks are not read
            ahead = ReadAhead(samples)
            for at, i in enumerate(together):
                ahead.before(at)
                self._hashes[16 * (first + i) : 16 * (first + i + 1)] = _hash(samples[at])

    def notes(self, source: Source, split_of: np.ndarray, names: Sequence[str]) -> list[str]:
        """Sentences about the shares, names without a group, and groups in two splits. `split_of`: of each sample.

        Raises LeakError where a file or a group is in two splits, and that is refused.
        """
        files = self._straddling([self._hashes], "file", source, split_of, names) if self._no_leaks else ""
        groups = self._straddling(self._rules(), "group", source, split_of, names)
        if self._no_leaks and (files or groups):
            remedy = "make the dataset, and new splits of it with `shardfeed split` and the same groups"
            if files:
                remedy = "remove one of each, or divide the dataset again with `shardfeed split --group-duplicates`"
            if files and self._options.fractions and not self._groups.duplicates:
                remedy = f"{argument('group_duplicates', True)} keeps copies in one split"
            raise LeakError("no_leaks", f"E_LEAK: {files or groups}", f"nothing was written; {remedy}")
        found = [self.shares.note()] if self.shares and self._options.onto is None else []
        if self._unlike:
            of = f"{number(len(self._unlike), 'name')} of {len(self._keys) + len(split_of):,}"
            match = "does not match" if len(self._unlike) == 1 else "do not match"
            found.append(f"{of} {match} the group pattern: {some(self._unlike)}")
        return [*found, *([groups] if groups else [])]

    def _straddling(
        self, rules: Sequence[bytearray | None], what: str, source: Source, split_of: np.ndarray, names: Sequence[str]
    ) -> str:
        """A sentence about groups and files in two splits; "" if there are none."""
        group, first = self._joined(rules), len(self._keys)
        splits, code = self._splits(split_of, names)
        code = code[: len(group)]
        order = np.lexsort((code, group))
        one, other = order[:-1], order[1:]
        apart = np.flatnonzero((group[one] == group[other]) & (code[one] != code[other]))
        _, begin = np.unique(group[one[apart]], return_index=True)
        if not len(begin):
            return ""

        def shown(member: int) -> str:
            key = self._keys[member] if member < first else source[member - first].key
            return f"{escape(key)} ({splits[code[member]]})"

        pairs = [f"{shown(int(one[i]))} = {shown(int(other[i]))}" for i in apart[begin[:_EXAMPLES]]]
        problem = f"{number(len(begin), what)} {'is' if len(begin) == 1 else 'are'} in more than one split"
        return f"{problem}: {', '.join(pairs)}{', ...' if len(begin) > len(pairs) else ''}"

    def _splits(self, split_of: np.ndarray, names: Sequence[str]) -> tuple[list[str], np.ndarray]:
        """Names of all splits in the usual order, and the place in these of each member's split; -1 without one."""
        splits = in_usual_order({*self._stored, *names})
        stored = np.repeat([splits.index(name) for name in self._stored], [*self._stored.values()])
        code = np.array([*map(splits.index, names), -1])[split_of]
        return splits, np.concatenate([stored.astype(np.int64), code])

    def _rules(self) -> list[bytearray | None]:
        """List the links between samples, by each rule of groups that is set."""
        return [*filter(None, self._shared.values()), *([self._hashes] if self._groups.duplicates else [])]

    def _joined(self, rules: Sequence[bytearray | None]) -> np.ndarray:
        """The group of each member, int64: 0, 1, ..., equal for linked members."""
        given = [shared for shared in rules if shared]
        one, other = np.concatenate([np.zeros((2, 0), np.int64), *map(_links, given)], axis=1)
        root = np.arange(max((len(shared) // 16 for shared in given), default=0))
        join(root, one, other)
        return np.unique(root, return_inverse=True)[1]


def _links(shared: bytes | bytearray) -> np.ndarray:
    """Pairs of members that share the same 16 bytes, int64 [2, pairs]: each with the next one that does."""
    values = np.frombuffer(shared, "<u8").reshape(-1, 2)
    order = np.lexsort((values[:, 1], values[:, 0]))
    same = (values[order[1:]] == values[order[:-1]]).all(axis=1) & values[order[1:]].any(axis=1)
    return np.stack([order[:-1][same], order[1:][same]])


def _size(sample: Sample) -> int:
    """Bytes of the file; -1 if they are known only by reading it. Files of records, hashed already, count as equal."""
    if isinstance(sample.image, FinishedRecord):
        return -1
    return len(sample.image) if isinstance(sample.image, bytes) else int(getattr(sample.image, "size", -1))


def _hash(sample: Sample) -> bytes:
    """The first half of the SHA-256 of a sample's file; zeros if it cannot be read, which its conversion reports."""
    if isinstance(sample.image, FinishedRecord):
        stored = sample.features.get(SHA256)
        if not isinstance(stored, bytes):
            problem = f"the record {escape(sample.key)} has no SHA-256 of its file, by which duplicates are found"
            raise UsageError("source", problem, "convert the images again, with their hashes")
        return bytes.fromhex(stored.decode())[:16]
    try:
        data = read_image(sample)
    except RejectedError:
        return _NONE
    return hashlib.sha256(data).digest()[:16] if data else _NONE
