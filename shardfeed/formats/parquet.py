"""A shard as Parquet with the metadata that Hugging Face's `datasets` needs: `load_dataset("parquet", data_dir=DIR)`.

data/train-00000-of-00004.parquet: one row per record, and one column per feature under its key, except for two that
other programs know by a shorter name: `image` (image/encoded) and `label` (image/class/label).

    image                         struct<bytes: binary, path: string>: an `Image`; a `Value` if pixels are stored raw
    rasters, masks of objects     likewise, the masks a list of them
    label, others with classes    int64, the names of the classes in the schema's metadata: a `ClassLabel`
    text, other bytes, numbers    string, binary, int64, float32; lists of them, of a fixed length if all have the same

Boxes are lists of fractions, one column per side, as in every other shardfeed format.

A row group is about 32 MiB of records: large enough for a disk, and small enough to be read for one row. There is no
compression and no dictionary: images would not get smaller, all other values are small, and the bytes of an image are
in the file unchanged, which is how shardfeed reads them, too. Each page has a checksum, and the page index says where
each page is.

Source: huggingface/datasets, src/datasets/features/image.py and io/parquet.py; apache/parquet-format.
"""

import json
from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shardfeed.errors import UsageError, name_text
from shardfeed.formats.container import ContainerFormat, WrittenContainer, column_names, image_key
from shardfeed.schema import FILENAME, FORMAT, Schema, Value
from shardfeed.storage.local import NewFile
from shardfeed.storage.storage import FileInfo

ROW_GROUP_BYTES = 32 << 20
_BATCH_ROWS = 16  # rows after which the writer checks whether the page, of 1 MiB, is full


class _Output:
    """A file object for pyarrow, which records the offsets of the images written to it."""

    closed = False

    def __init__(self, file: NewFile) -> None:
        self._file = file
        self.expected: deque[bytes] = deque()  # images expected next, in this order
        self.offsets = array("q")
        self.dropped = False  # no images are expected

    def write(self, data: bytes) -> int:
        """A page, the header of one, or a part of the footer."""
        start = 0
        while self.expected:
            image = self.expected[0]
            # Without a dictionary, each value follows its length.
            found = data.find(len(image).to_bytes(4, "little") + image, start)
            if found < 0:
                break
            self.expected.popleft()
            self.offsets.append(self._file.size + found + 4)
            start = found + 4 + len(image)
        if not self.dropped:
            self._file.write([data])
        return len(data)

    def tell(self) -> int:
        return self._file.size

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        """Nothing: the file is made durable when it is whole."""

    def close(self) -> None:
        """Nothing."""


class _Parquet:
    """See `Container`. Holds the records of a row group."""

    def __init__(self, path: str, schema: Schema, _: int) -> None:
        self._schema, self._image = schema, image_key(schema)
        self._names = column_names(schema)
        self._file = NewFile(path, sync_directory=False)
        self._output = _Output(self._file)
        self._writer: Any = None  # created with the first row group: its first record determines the image's type
        self._raw = False
        self._rows: list[Mapping[str, Value]] = []
        self._bytes = self._count = 0

    def add(self, values: Mapping[str, Value], parts: Sequence[bytes]) -> None:
        if not self._count:
            self._raw = values.get(FORMAT) == b"raw"
        self._rows.append(values)
        self._bytes += sum(map(len, parts))
        self._count += 1
        if self._bytes >= ROW_GROUP_BYTES:
            self._write()

    def _write(self) -> None:
        """Write the buffered records as a row group."""
        import pyarrow as pa
        from pyarrow import parquet

        # The image first, so that viewers show it first, and its bytes are found before those of other columns.
        keys = sorted(self._names, key=lambda key: (key != self._image, self._names[key]))
        columns = {key: _Column(self._schema, key, image=key == self._image and not self._raw) for key in keys}
        if self._writer is None:
            features = {self._names[key]: columns[key].feature for key in keys}
            fields = [pa.field(self._names[key], columns[key].type) for key in keys]
            metadata = {"huggingface": json.dumps({"info": {"features": features}}, sort_keys=True)}
            numbers = [
                self._names[key] for key in keys if self._schema.features[key].scalar and not columns[key].binary
            ]
            self._writer = parquet.ParquetWriter(
                self._output,
                pa.schema(fields, metadata),
                compression="none",
                use_dictionary=False,
                write_statistics=numbers or False,  # type: ignore[arg-type]  # a list of columns is accepted, too
                write_page_index=True,
                write_page_checksum=True,
                write_batch_size=_BATCH_ROWS,
            )
        if not self._rows:
            return
        if self._image is not None:
            self._output.expected.extend(values[self._image] for values in self._rows)  # type: ignore[misc]  # bytes
        arrays = [columns[key].array(self._rows) for key in keys]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._writer.schema), row_group_size=1 << 30)
        self._rows, self._bytes = [], 0
        assert not self._output.expected, "an image is not stored byte for byte"

    def finish(self) -> WrittenContainer:
        """Write the last row group and the footer."""
        self._write()
        self._writer.close()
        self._file.__exit__(None)
        offsets = self._output.offsets if self._image is not None else array("q", bytes(8 * self._count))
        return WrittenContainer(FileInfo(self._file.size, self._file.crc32c), np.frombuffer(offsets, np.int64))

    def discard(self) -> None:
        self._output.dropped = True  # a writer writes its footer when it is garbage-collected
        self._writer = None
        self._file.__exit__(RuntimeError)


class _Column:
    """A feature in Parquet: `type`, pyarrow's; `feature`, its description for `datasets`."""

    def __init__(self, schema: Schema, key: str, *, image: bool) -> None:
        import pyarrow as pa

        feature, kind = schema.features[key], schema.kind(key)
        self.key, self.scalar, self._text = key, feature.scalar, kind == "text"
        self._picture = image or kind in ("raster", "mask")
        self._named = image and FILENAME in schema.features
        self._shape: list[int] = []
        if self._picture:
            self.type = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
            self.feature: dict[str, Any] = {"_type": "Image"}
        elif key in schema.class_names:
            self.type = pa.int64()
            self.feature = {"names": list(schema.class_names[key]), "_type": "ClassLabel"}
        else:
            name = {"int64": "int64", "float32": "float32", "bytes": "string" if self._text else "binary"}[
                feature.dtype
            ]
            self.type = getattr(pa, name)()
            self.feature = {"dtype": name, "_type": "Value"}
        self.binary = feature.dtype == "bytes" and not self._text
        for side in reversed(feature.shape):
            self.feature = {"feature": self.feature, "_type": "Sequence"} | ({} if side is None else {"length": side})
            self.type = pa.list_(self.type, -1 if side is None else side)
            self._shape.insert(0, -1 if side is None else side)

    def array(self, rows: Sequence[Mapping[str, Value]]) -> Any:
        """The column of these records."""
        import pyarrow as pa

        values: list[Any] = [row[self.key] for row in rows]
        if self._picture and self.scalar:
            names = [name_text(row[FILENAME]) for row in rows] if self._named else [None] * len(rows)  # type: ignore[arg-type]  # bytes
            paths = [None if name is None else name.encode("utf-8", "backslashreplace") for name in names]
            parts = pa.array(values, pa.binary()), pa.array(paths, pa.binary()).cast(pa.string())
            return pa.StructArray.from_arrays(parts, ["bytes", "path"])
        if self._picture:
            return pa.array([[{"bytes": item, "path": None} for item in value] for value in values], self.type)
        if len(self._shape) > 1:
            values = [np.reshape(np.array(value, object), self._shape).tolist() for value in values]
        try:
            # Text is checked to be UTF-8 when it is made from bytes.
            return pa.array(_decoded(values) if self._text else values, self.type)
        except UnicodeDecodeError:
            raise UsageError(f"feature {self.key}", "is text, but not valid UTF-8") from None


def _decoded(values: Sequence[Any]) -> list[Any]:
    return [value.decode() if isinstance(value, bytes) else [item.decode() for item in value] for value in values]


class Parquet(ContainerFormat):
    """See `ShardFormat`."""

    name = "parquet"
    data_suffix = ".parquet"
    package = "pyarrow"
    container = _Parquet

    def shard_file(self, split: str, number: int, count: int) -> str:
        """`data/train-00003-of-00008.parquet`: there `datasets` looks for splits of any name."""
        return f"data/{super().shard_file(split, number, count)}"
