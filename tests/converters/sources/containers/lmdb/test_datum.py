"""Caffe's Datum, against TensorFlow's protocol buffers where those are made, and any bytes at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.converters.rejects import RejectedError
from shardfeed.converters.sources.rare.lmdb import image_of
from shardfeed.converters.sources.rare.lmdb_walk import read_datum


@pytest.fixture(scope="module")
def message() -> type:
    """The class that protobuf makes of the description of Datum."""
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    from google.protobuf import descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="datum.proto", package="t", syntax="proto2")
    kind = file.message_type.add(name="Datum")
    field = descriptor_pb2.FieldDescriptorProto
    for number, name, what in (
        (1, "channels", field.TYPE_INT32),
        (2, "height", field.TYPE_INT32),
        (3, "width", field.TYPE_INT32),
        (4, "data", field.TYPE_BYTES),
        (5, "label", field.TYPE_INT32),
        (6, "float_data", field.TYPE_FLOAT),
        (7, "encoded", field.TYPE_BOOL),
    ):
        label = field.LABEL_REPEATED if number == 6 else field.LABEL_OPTIONAL
        kind.field.add(name=name, number=number, type=what, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Datum"))


@given(
    sides=st.tuples(*[st.integers(0, 2**31 - 1)] * 3),
    data=st.binary(min_size=1, max_size=300),
    label=st.none() | st.integers(-(2**31), 2**31 - 1),
    floats=st.lists(st.floats(width=32), max_size=3),
    encoded=st.booleans(),
)
def test_as_protobuf_writes_it(message: type, sides, data: bytes, label, floats, encoded: bool) -> None:
    written = message(data=data, float_data=floats, encoded=encoded)
    written.channels, written.height, written.width = sides
    if label is not None:
        written.label = label
    value = written.SerializeToString()
    found = read_datum(memoryview(value))
    assert found[:3] == sides
    assert (value[found.offset : found.offset + found.size], found.label, found.floats, found.encoded) == (
        data,
        label,
        bool(floats),
        encoded,
    )


@given(st.binary(max_size=200))
def test_any_bytes(value: bytes) -> None:
    """Are a Datum or are refused; no other error."""
    try:
        read_datum(memoryview(value))
    except ValueError:
        with pytest.raises(RejectedError):
            image_of(value)
