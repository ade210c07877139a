"""A sample as `split[i]` returns it: a dict whose display is short, in a shell and in a notebook.

Only the display differs. What is made from it is a plain dict: copies, pickles, `sample | {...}`, batches.
"""

import io
import sys
from collections.abc import Callable, Iterable, Mapping
from reprlib import recursive_repr
from types import ModuleType
from typing import Any

import numpy as np

from shardfeed.errors import shown
from shardfeed.readers.notebook import FORMATS, record_html
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, WIDTH

_TEXT = 64  # characters or bytes of a text that are shown
_BINARY = 20  # bytes of anything else
_ITEMS = 3  # of an array or a list


class ReadRecord(dict[str, Any]):
    """A dict of a sample's values; its `repr` names large values by their size.

    PyTorch, JAX and optree (Keras) take it for a container, like a dict. They are told when the first record is read
    after they were imported.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and has_values(self, other)

    def __ne__(self, other: object) -> bool:  # a dict has one of its own
        return not self == other

    @recursive_repr("{...}")
    def __repr__(self) -> str:
        lines = [f"{key!r}: {text}" for key, text in self._texts()]
        return "{" + ",\n ".join(lines) + "}"

    def _repr_html_(self) -> str:
        return record_html(self, self._texts())

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        """Pickle and copy as a plain dict: who gets it need not have shardfeed."""
        return dict, (dict(self),)

    def _texts(self) -> list[tuple[str, str]]:
        texts = {key: _value_text(value) for key, value in self.items()}
        if self.get(FORMAT) == b"raw" and isinstance(pixels := self.get(ENCODED), bytes):
            texts[ENCODED] = f"<{len(pixels):,} bytes, raw {self.get(WIDTH)}x{self.get(HEIGHT)}>"
        return list(texts.items())


def has_values(record: Mapping[str, Any], other: Mapping[Any, Any]) -> bool:
    """Whether two records have the same features with the same values; NaN is the same as NaN."""
    try:
        return record.keys() == other.keys() and all(_same_value(record[key], other[key]) for key in record)
    except Exception:  # a value of the user's may not be comparable
        return False


def _same_value(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return one is other or np.array_equal(one, other, equal_nan=True)
    is_nan = isinstance(one, float) and isinstance(other, float) and one != one and other != other
    return is_nan or bool(one == other)


def new_record() -> ReadRecord:
    """Return an empty record, of a class that all libraries imported so far know."""
    for name in _untold:
        if name in sys.modules:
            _tell(name)
    return ReadRecord()


def _value_text(value: Any) -> str:
    """A value in one line, of about 100 characters at most."""
    if isinstance(value, bytes | bytearray):
        return _bytes_text(bytes(value))
    if isinstance(value, str):
        return _cut(value, "characters")
    if isinstance(value, np.ndarray):
        first = shown(value.flat[:_ITEMS].tolist())[1:-1]
        return f"<{value.dtype} {list(value.shape)}{_list_text(first, value.size)}>"
    if isinstance(value, list | tuple):
        return _sequence_text(value)
    shape = getattr(value, "shape", None)
    if shape and hasattr(value, "dtype"):  # a tensor that a transform has put in
        return f"<{value.dtype} {list(shape)}>"
    return shown(value)


def _sequence_text(value: list[Any] | tuple[Any, ...]) -> str:
    first = ", ".join(map(_item_text, value[:_ITEMS]))
    if len(value) > _ITEMS:
        return f"<{type(value).__name__} of {len(value):,}{_list_text(first, len(value))}>"
    return f"[{first}]" if isinstance(value, list) else shown(value)


def _item_text(value: Any) -> str:
    """A value of a list; lists in it are not looked into, as one may contain itself."""
    return _value_text(value) if isinstance(value, bytes | str | np.ndarray) else shown(value)


def _list_text(first: str, size: int) -> str:
    """The first values, as they follow the kind of an array or a list."""
    more = ", ..." if size > _ITEMS else ""
    return f": {first}{more}" if size else ""


def _bytes_text(value: bytes) -> str:
    if len(value) <= _BINARY:
        return repr(value)
    if _is_text(value):
        return _cut(value, "bytes")
    picture = _picture_text(value)
    return f"<{len(value):,} bytes{picture and f', {picture}'}>"


def _is_text(value: bytes) -> bool:
    """Whether it looks like text: of long values, by their beginning, of which the last character may be cut."""
    beginning = value[: 4 * _TEXT].decode("utf-8", "replace").rstrip("\ufffd")
    return bool(beginning) and all(c.isprintable() or c.isspace() for c in beginning) and "\ufffd" not in beginning


def _cut(text: bytes | str, unit: str) -> str:
    return repr(text) if len(text) <= _TEXT else f"<{len(text):,} {unit}: {text[:_TEXT]!r}...>"


def _picture_text(value: bytes) -> str:
    """`JPEG 500x375`, width and height, of the header of an image file; empty for all else."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(value), formats=FORMATS) as image:
            return f"{image.format} {image.width}x{image.height}"
    except Exception:  # no image, or one that is damaged
        return ""


def _keys_and_values(record: ReadRecord) -> tuple[list[Any], tuple[Any, ...]]:
    keys = tuple(sorted(record, key=str))
    return [record[key] for key in keys], keys


def _plain(keys: Iterable[Any], values: Iterable[Any]) -> dict[Any, Any]:
    return dict(zip(keys, values, strict=True))


def _tell_torch(pytree: Any) -> None:
    pytree.register_pytree_node(ReadRecord, _keys_and_values, lambda values, keys: _plain(keys, values))


def _tell_jax(tree_util: Any) -> None:
    def with_keys(record: ReadRecord) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        values, keys = _keys_and_values(record)
        return [(tree_util.DictKey(key), value) for key, value in zip(keys, values, strict=True)], keys

    tree_util.register_pytree_with_keys(ReadRecord, with_keys, _plain, _keys_and_values)


def _tell_optree(registry: Any) -> None:
    def with_entries(record: ReadRecord) -> tuple[list[Any], tuple[Any, ...], tuple[Any, ...]]:
        values, keys = _keys_and_values(record)
        return values, keys, keys

    registry.register_pytree_node(ReadRecord, with_entries, _plain, namespace=registry.__dict__["__GLOBAL_NAMESPACE"])


# By module: for these libraries a subclass of dict is one value, unless they know it.
_TELL: dict[str, Callable[[ModuleType], None]] = {
    "torch.utils._pytree": _tell_torch,
    "jax.tree_util": _tell_jax,
    "optree.registry": _tell_optree,
}
_untold = tuple(_TELL)


def _tell(name: str) -> None:
    """Tell a library of the class, once, unless it is still being imported."""
    global _untold
    module = sys.modules[name]
    if name in _untold and not getattr(module.__spec__, "_initializing", False):
        _untold = tuple(each for each in _untold if each != name)
        _TELL[name](module)
