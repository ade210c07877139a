"""The rows of a Parquet file as a label file has them."""

from collections.abc import Iterator
from typing import Any

from shardfeed.errors import LabelFileError, escape, needing_extra

_BATCH = 4096  # rows in memory at once


def parquet_rows(path: str) -> Iterator[dict[str, Any]]:
    """Each row by column: texts, numbers, booleans, None, and lists of those; what is else is an empty dict.

    Columns of bytes are not read, images among them. Raises LabelFileError for a file that cannot be read, and one
    that has no column to read; MissingExtraError without pyarrow.
    """
    with needing_extra(path):
        import pyarrow as pa
        import pyarrow.parquet as pq
    kinds = pa.types
    try:
        with pq.ParquetFile(path) as file:
            fields = [field for field in file.schema_arrow if not _is_bytes(kinds, field.type)]
            if not fields:
                raise LabelFileError(path, "it has no column of texts or numbers", "give the list of files")
            for batch in file.iter_batches(_BATCH, columns=[field.name for field in fields], use_threads=False):
                for row in batch.to_pylist():
                    yield {name: _plain(value) for name, value in row.items()}
    except LabelFileError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: of texts that are not UTF-8, too
        problem = f"cannot be read as Parquet: {escape(str(error)[:120])}"
        raise LabelFileError(path, problem, "copy or download it again") from None


def _is_bytes(kinds: Any, kind: Any) -> bool:
    """Whether a column holds bytes, or structs with some, such as images."""
    if kinds.is_struct(kind):
        return any(_is_bytes(kinds, kind.field(i).type) for i in range(kind.num_fields))
    return kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, str | bool | int | float) else {}
