"""tf.train.Example, written and read without TensorFlow or protobuf.

    message Example   { Features features = 1; }
    message Features  { map<string, Feature> feature = 1; }       // an entry is { string key = 1; Feature value = 2; }
    message Feature   { oneof kind { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; } }
    message BytesList { repeated bytes value = 1; }    FloatList, Int64List: repeated, packed, value = 1

Source: tensorflow/core/example/{example,feature}.proto. Keys are written sorted, so the same features give the same
bytes; protobuf's deterministic serialisation writes them, too. The reader accepts any order, and lists packed or not,
as a protobuf parser must.

Why not use the libraries: importing TensorFlow costs every worker 3 s and 400 MB, and a second `tensorflow.Example` in
one process is refused as a duplicate symbol.
"""

from array import array
from collections.abc import Container, Iterator, Mapping

import numpy as np

from shardfeed.errors import IntegrityError, escape
from shardfeed.formats.format import Decoded
from shardfeed.schema import Dtype, Feature, Value

_BYTES, _FLOAT, _INT64 = b"\x0a", b"\x12", b"\x1a"  # the tags of the three kinds in Feature
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5  # wire types
_MANY, _BLOCK = 1 << 12, 1 << 16  # bytes of packed numbers from which NumPy reads them, and per block
_LARGE = 4096  # bytes from which a value stays its own buffer instead of being copied

_ONE_BYTE = [bytes((n,)) for n in range(0x80)]  # most lengths and labels
_SMALL = b"\x0a%c%b\x12%c%c%c\x0a%c%b"  # the map entry of one value, while every length fits in seven bits


def _varint(n: int) -> bytes:
    if 0 <= n < 0x80:
        return _ONE_BYTE[n]
    if 0 <= n < 0x200000:  # the sizes of most images
        return bytes((n & 0x7F | 0x80, n >> 7 & 0x7F | 0x80, n >> 14) if n >> 14 else (n & 0x7F | 0x80, n >> 7))
    n = int(n) & 0xFFFFFFFFFFFFFFFF  # NumPy's would overflow; a negative int64 is its two's complement, ten bytes long
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def _field(tag: bytes, content: bytes) -> bytes:
    """A length-delimited field."""
    return tag + _varint(len(content)) + content


def _list(feature: Feature, value: Value) -> bytes:
    """A BytesList, FloatList or Int64List message."""
    values = value if isinstance(value, list | tuple) else (value,)
    if feature.dtype == "bytes":
        return b"".join([_field(b"\x0a", item) for item in values])  # type: ignore[arg-type]  # dtype says bytes
    if not values:
        return b""
    if feature.dtype == "float32":
        return _field(b"\x0a", np.asarray(values, "<f4").tobytes())
    return _field(b"\x0a", b"".join([_varint(item) for item in values]))  # type: ignore[arg-type]  # dtype says int


_KINDS: Mapping[Dtype, bytes] = {"bytes": _BYTES, "float32": _FLOAT, "int64": _INT64}


class ExampleEncoder:
    """Examples with these features, one after the other: what they have in common is worked out once."""

    def __init__(self, features: Mapping[str, Feature], apart: str | None = None) -> None:
        """`apart`: a feature with one bytes value, which gets its own buffer whatever its size."""
        self._apart = None if apart is None else _field(b"\x0a", apart.encode())
        self._fields = [(key, _field(b"\x0a", key.encode()), features[key]) for key in sorted(features)]

    def parts(self, values: Mapping[str, Value]) -> list[bytes]:
        """An Example as buffers that joined are its serialisation; a scalar of 4 KiB or more is never copied.

        `values` has exactly the features' keys, each value of the stated dtype: one value for shape `()`, a list for
        `(None,)`; int64 within its range.
        """
        assert len(values) == len(self._fields), (sorted(values), [key for key, *_ in self._fields])
        parts: list[bytes] = []
        small: list[bytes] = []
        for key, name, feature in self._fields:
            value = values[key]
            if isinstance(value, bytes):
                if len(value) >= _LARGE or name == self._apart:
                    parts += [b"".join([*small, _before_large(name, len(value))]), value]
                    small = []
                    continue
                tag, content = 0x0A, value
            elif feature.dtype == "int64" and not isinstance(value, list | tuple):
                tag, content = 0x1A, _varint(value)  # type: ignore[arg-type]  # dtype says int
            else:
                small.append(_entry(name, feature, value))
                continue
            size, whole = len(content), len(name) + len(content) + 6
            if whole < 0x80:
                small.append(_SMALL % (whole, name, size + 4, tag, size + 2, size, content))
            else:
                small.append(_entry(name, feature, value))
        parts.append(b"".join(small))
        total = sum(map(len, parts))
        parts[0] = b"\x0a" + _varint(total) + parts[0] if total else b""
        return parts


def _entry(name: bytes, feature: Feature, value: Value) -> bytes:
    """The map entry of any value."""
    kind = _field(_KINDS[feature.dtype], _list(feature, value))
    return _field(b"\x0a", name + _field(b"\x12", kind))


def _before_large(name: bytes, size: int) -> bytes:
    """Return the bytes before a value of `size` bytes in its map entry; their lengths count the value too."""
    value = b"\x0a" + _varint(size)
    values = _BYTES + _varint(len(value) + size) + value
    feature = name + b"\x12" + _varint(len(values) + size) + values
    return b"\x0a" + _varint(len(feature) + size) + feature


def encode(features: Mapping[str, Feature], values: Mapping[str, Value]) -> bytes:
    """The serialised Example; see `ExampleEncoder.parts`."""
    return b"".join(ExampleEncoder(features).parts(values))


def _read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the value at `at` and the position after it."""
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
    raise IntegrityError("Example", f"the number at byte {at} does not end")


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield each field of a message as (number, wire type, start, end) of its content; for a varint, of its bytes."""
    while at < end:
        tag = data[at]
        if tag < 0x80:  # nearly always; one more call would double the time
            at += 1
        else:
            tag, at = _read_varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        if tag >> 32:
            raise IntegrityError("Example", f"field {number} at byte {at}, expected at most {(1 << 29) - 1}")
        start = at
        if wire == _LENGTH:
            if at < end and (size := data[at]) < 0x80:
                start = at + 1
            else:
                size, start = _read_varint(data, at, end)
            at = start + size
        elif wire == _VARINT:
            _, at = _read_varint(data, at, end)
        elif wire == _FIXED32:
            at += 4
        elif wire == _FIXED64:
            at += 8
        else:
            raise IntegrityError("Example", f"unknown wire type {wire} at byte {at}")
        if number == 0 or at > end:
            raise IntegrityError("Example", f"field {number} at byte {start} extends beyond its message")
        yield number, wire, start, at


def _read_varints(data: bytes, at: int, end: int) -> np.ndarray:
    """Yield all values of a packed list as int64, one block at a time."""
    found = array("q")
    while at < end:
        block = np.frombuffer(data, np.uint8, min(end - at, _BLOCK), at)
        last = np.flatnonzero(block < 0x80)
        if not len(last):
            raise IntegrityError("Example", f"the number at byte {at} does not end")
        block = block[: last[-1] + 1]
        begin = np.concatenate([[0], last[:-1] + 1])
        length = last + 1 - begin
        if length.max() > 10:
            raise IntegrityError("Example", f"the number after byte {at} does not end")
        shift = np.arange(len(block)) - np.repeat(begin, length)
        parts = (block & 0x7F).astype(np.uint64) << (7 * shift).astype(np.uint64)
        found.frombytes(np.bitwise_or.reduceat(parts, begin).tobytes())
        at += len(block)
    return np.frombuffer(found, np.int64)


def _read_feature(data: bytes, at: int, end: int) -> tuple[Dtype, Decoded] | None:
    """Return dtype and values of a Feature message; None if it has no kind.

    As in protobuf, a repeated kind has the values of both, and of two different kinds the last one counts.
    """
    kind, values = 0, []
    for number, wire, start, stop in _fields(data, at, end):
        if wire != _LENGTH or number not in (1, 2, 3):
            continue  # unknown fields are skipped, as protobuf does
        if number != kind:
            kind, values = number, []
        for field, field_wire, a, b in _fields(data, start, stop):
            if field != 1:
                continue
            if kind == 1 and field_wire == _LENGTH:
                values.append(data[a:b])
            elif kind == 2 and field_wire in (_LENGTH, _FIXED32):
                if (b - a) % 4:
                    raise IntegrityError("Example", f"a float list of {b - a} bytes, expected a multiple of 4")
                values.append(data[a:b])
            elif kind == 3 and field_wire in (_LENGTH, _VARINT):
                if b - a >= _MANY:  # as Python's numbers they would take 36 bytes each
                    values.append(_read_varints(data, a, b))
                    continue
                if (small := data[a:b]).isascii():  # a byte each: flags, and labels of few classes
                    values.extend(small)
                    continue
                while a < b:
                    value, a = _read_varint(data, a, b)
                    values.append(value - (1 << 64) if value >> 63 else value)
    if kind == 1:
        return "bytes", values
    if kind == 2:
        return "float32", np.frombuffer(b"".join(values), "<f4").astype(np.float32)
    if len(values) == 1 and isinstance(values[0], np.ndarray):
        return "int64", values[0]
    if any(isinstance(value, np.ndarray) for value in values):
        return "int64", np.concatenate([np.atleast_1d(np.asarray(value, np.int64)) for value in values])
    return ("int64", np.array(values, np.int64)) if kind else None


def _short_value(data: bytes, at: int, end: int) -> int:
    """Return where the value begins in a map's entry of a key and a value, each shorter than 128 bytes; else 0.

    Most entries are: without `_fields`, a record takes half the time.
    """
    value = at + 4 + data[at + 1] if end - at > 3 else end + 1
    if value > end or data[at] != 0x0A or data[value - 2] != 0x12 or data[at + 1] | data[value - 1] >= 0x80:
        return 0
    return value if value + data[value - 1] == end else 0


def decode(payload: bytes, keys: Container[str] | None = None) -> dict[str, tuple[Dtype, Decoded]]:
    """Every feature of a serialised Example: its dtype, and its values as a list of bytes or a 1-D array.

    With `keys` only those: the values of others are skipped, which saves time. A Feature without a kind is left out, as
    TensorFlow treats it as missing. If a key is repeated, the last one counts. Raises IntegrityError on bytes that
    protobuf's parsers refuse, and on groups (wire types 3 and 4), which they skip and no Example has. Time and memory
    are linear in the payload's length.
    """
    features: dict[str, tuple[Dtype, Decoded]] = {}
    try:
        for number, wire, start, stop in _fields(payload, 0, len(payload)):
            if (number, wire) != (1, _LENGTH):
                continue
            for entry, entry_wire, a, b in _fields(payload, start, stop):
                if (entry, entry_wire) != (1, _LENGTH):
                    continue
                key, found, values = "", None, []
                if value := _short_value(payload, a, b):
                    key, values = payload[a + 2 : value - 2].decode(), [(value, b)]
                else:
                    for part, part_wire, c, d in _fields(payload, a, b):
                        if (part, part_wire) == (1, _LENGTH):
                            key = payload[c:d].decode()
                        elif (part, part_wire) == (2, _LENGTH):
                            values.append((c, d))
                if keys is not None and key not in keys:
                    continue
                for c, d in values:
                    found = _read_feature(payload, c, d)
                if len(values) > 1:  # each is valid; protobuf merges them, which equals reading them as one
                    joined = b"".join([payload[c:d] for c, d in values])
                    found = _read_feature(joined, 0, len(joined))
                if found is None:
                    features.pop(key, None)
                else:
                    features[key] = found
    except UnicodeDecodeError as error:
        raise IntegrityError("Example", f"a feature's key is not UTF-8: {error.reason}") from None
    return features


def cut_out(payload: bytes, key: str) -> tuple[bytes | memoryview | None, bytes]:
    """Return the single bytes value of feature `key`, its offset, and an Example of all other features, unparsed.

    For callers that need the image and pass on the rest. The value is None unless there is exactly one. A record in an
    unusual encoding is passed on whole. Raises IntegrityError as `decode` does.
    """
    named = _field(b"\x0a", key.encode())
    value: memoryview | None = None
    others: list[bytes] = []
    for number, wire, at, stop in _fields(payload, 0, len(payload)):
        if (number, wire) != (1, _LENGTH):
            continue
        kept = at
        while at < stop:
            size, start = (payload[at + 1], at + 2) if at + 2 < stop else (0, at)
            if size >= 0x80:
                size, start = _read_varint(payload, at + 1, stop)
            end = start + size
            if payload[at] != 0x0A or size < 4 or end > stop or payload[start] != 0x0A or payload[start + 1] >= 0x80:
                return _only_value(payload, key), payload
            if payload.startswith(named, start):
                begin = start + len(named)
                for tag in (0x12, 0x0A, 0x0A):  # Feature, BytesList and the value, each filling the one before
                    begin = _filling(payload, tag, begin, end)
                if not begin or value is not None:
                    return _only_value(payload, key), payload
                value = memoryview(payload)[begin:end]
                others.append(payload[kept:at])
                kept = end
            at = end
        others.append(payload[kept:stop])
    if value is None:
        return _only_value(payload, key), payload
    return value, _field(b"\x0a", b"".join(others))


def _filling(data: bytes, tag: int, at: int, end: int) -> int:
    """Return the start of the content of the field at `at` if it has this `tag` and ends at `end`; else 0."""
    if not 0 < at < end or data[at] != tag:
        return 0
    size, start = _read_varint(data, at + 1, end)
    return start if start + size == end else 0


def _only_value(payload: bytes, key: str) -> bytes | None:
    """Return the single bytes value of a feature, or None unless there is exactly one."""
    dtype, values = decode(payload, {key}).get(key, ("bytes", []))
    return bytes(values[0]) if dtype == "bytes" and len(values) == 1 else None


def values_of(payload: bytes, features: Mapping[str, Feature]) -> dict[str, Value]:
    """Return the values of these features of a record, as an encoder takes them. Raises IntegrityError."""
    found = decode(payload, features)
    values: dict[str, Value] = {}
    for key, feature in features.items():
        dtype, of_key = found.get(key, (feature.dtype, []))
        if (dtype != feature.dtype and len(of_key)) or feature.count not in (None, len(of_key)):
            problem = f"feature {escape(key)} has {len(of_key)} values of {dtype}"
            raise IntegrityError("Example", problem, "it does not match the dataset's schema: convert again")
        listed = of_key if isinstance(of_key, list) else of_key.tolist()
        values[key] = listed[0] if feature.scalar else listed  # type: ignore[assignment]  # as the schema says
    return values


def is_sequence_example(payload: bytes) -> bool:
    """Whether `payload`, a message, has a field of SequenceExample that Example does not have.

    message SequenceExample { Features context = 1; FeatureLists feature_lists = 2; }
    """
    return any(number == 2 and wire == _LENGTH for number, wire, *_ in _fields(payload, 0, len(payload)))
