"""What there is to say of a shard while it is written, and in the end: its receipt."""

from collections.abc import Iterable, Mapping

from shardfeed.column import column_dtype, column_keys, encode_column
from shardfeed.converters.shards.earlier import made_of
from shardfeed.converters.shards.task import MADE_OF, Noted, Receipt, ShardTask
from shardfeed.converters.sources.account import Account
from shardfeed.converters.sources.source import Sample
from shardfeed.errors import UsageError, escape, name_text
from shardfeed.formats.example import decode, values_of
from shardfeed.formats.format import Checkpoint, ShardInfo
from shardfeed.schema import FORMAT, Value
from shardfeed.storage.file_info import FileInfo


class ShardContents:
    """Of a shard so far: counts, columns, and notes on single samples.

    `earlier`, `payloads`: of one that goes on, what its checkpoint says and the records up to there.
    """

    def __init__(self, task: ShardTask, earlier: Receipt | None = None, payloads: Iterable[bytes] = ()) -> None:
        self._task = task
        self._keys = column_keys(task.split, task.schema)
        counted = {*self._keys, *task.schema.class_names, FORMAT} & task.schema.features.keys()
        self._counted = {key: task.schema.features[key] for key in counted}
        self._counts = {key: [0] * len(names) for key, names in task.schema.class_names.items()}
        self._formats: dict[str, int] = {}
        self.rejected: list[Noted] = []
        self.normalised: list[Noted] = []
        self.warnings: list[Noted] = []
        self.progressive = 0
        self.account = Account()
        if earlier is not None:
            self._counts = {key: list(counts) for key, counts in earlier.class_counts.items()}
            self._formats = dict(earlier.formats)
            self.rejected, self.normalised = list(earlier.rejected), list(earlier.normalised)
            self.warnings, self.progressive = list(earlier.warnings), earlier.progressive
            self.account = earlier.account
        fields = (decode(payload, self._keys) for payload in payloads)
        self._rows = [tuple([values[key][1][0] for key in self._keys]) for values in fields]  # for each record

    @property
    def place(self) -> int:
        """The sample that comes next: of those before, each was written or rejected."""
        return len(self._rows) + len(self.rejected)

    def add(self, values: Mapping[str, Value], sample: Sample) -> None:
        """A record that was written. Raises UsageError for a label that has no class name."""
        _count(self._counts, values, sample)
        self._rows.append(tuple([values[key] for key in self._keys]))
        if FORMAT in values:  # also in every record that we make
            kind = bytes(values[FORMAT]).decode()  # type: ignore[arg-type]  # bytes, by image_features
            self._formats[kind] = self._formats.get(kind, 0) + 1

    def counted(self, payload: bytes) -> dict[str, Value]:
        """What `add` needs of a record. Raises IntegrityError where it is not as the schema says."""
        return values_of(payload, self._counted)

    def so_far(self, checkpoint: Checkpoint) -> Receipt:
        """What is durable of a shard that is not finished; its columns are in the records."""
        records, *data = checkpoint
        return self._receipt(ShardInfo(records, FileInfo(*data), FileInfo(0, 0)), {})

    def receipt(self, info: ShardInfo) -> Receipt:
        """Of the finished shard."""
        schema = self._task.schema
        columns = zip(*self._rows, strict=True) if self._rows else [()] * len(self._keys)
        pairs = zip(self._keys, columns, strict=True)
        encoded = {key: encode_column(values, column_dtype(schema, key)) for key, values in pairs}
        left_out = {noted.key for noted in self.rejected}
        written = [sample for sample in self._task.samples if sample.key not in left_out]
        return self._receipt(info, {**encoded, MADE_OF: made_of(written, schema, self._task.image)})

    def _receipt(self, info: ShardInfo, columns: Mapping[str, bytes]) -> Receipt:
        return Receipt(
            split=self._task.split,
            number=self._task.number,
            info=info,
            class_counts={key: tuple(values) for key, values in self._counts.items()},
            formats=dict(self._formats),
            columns=columns,
            rejected=tuple(self.rejected),
            normalised=tuple(self.normalised),
            warnings=tuple(self.warnings),
            progressive=self.progressive,
            account=self.account,
            digest=self._task.digest,
        )


def _count(counts: dict[str, list[int]], values: Mapping[str, Value], sample: Sample) -> None:
    for key, of_class in counts.items():
        found = values[key]
        for label in found if isinstance(found, list) else [found]:
            if not 0 <= label < len(of_class):  # type: ignore[operator]  # a label is an int: Schema and the source's contract
                raise UsageError(
                    f"sample {name_text(sample.key)}",
                    f"got the label {label!r} for {escape(key)}, expected 0 to {len(of_class) - 1}",
                    "correct the source, or its class names",
                )
            of_class[label] += 1  # type: ignore[index]  # as above
