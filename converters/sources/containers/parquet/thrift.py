"""Structs of Thrift's compact protocol, as Parquet has before each page: only as much as those headers use."""

from typing import Any

_TRUE, _FALSE, _BYTE, _INTS, _DOUBLE, _BINARY, _LISTS, _STRUCT = 1, 2, 3, (4, 5, 6), 7, 8, (9, 10), 12


def read_struct(data: bytes, place: int = 0) -> tuple[dict[int, Any], int]:
    """The struct that begins at `place`, values by field number, and where it ends.

    Raises IndexError where `data` ends before it does, ValueError for what is no such struct.
    """
    found: dict[int, Any] = {}
    field = 0
    while head := data[place]:
        place += 1
        if head >> 4:
            field += head >> 4
        else:
            number, place = _varint(data, place)
            field = _signed(number)
        found[field], place = _value(data, place, head & 15)
    return found, place + 1


def _value(data: bytes, place: int, kind: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, place
    if kind == _BYTE:
        return data[place], place + 1
    if kind in _INTS:
        number, place = _varint(data, place)
        return _signed(number), place
    if kind == _DOUBLE:
        return _cut(data, place, 8)
    if kind == _BINARY:
        size, place = _varint(data, place)
        return _cut(data, place, size)
    if kind in _LISTS:
        head, place = data[place], place + 1
        count = head >> 4
        if count == 15:
            count, place = _varint(data, place)
        items = []
        for _ in range(count):
            item, place = _value(data, place, head & 15)
            items.append(item)
        return items, place
    if kind == _STRUCT:
        return read_struct(data, place)
    raise ValueError(f"type {kind}")


def _cut(data: bytes, place: int, size: int) -> tuple[bytes, int]:
    if place + size > len(data):
        raise IndexError(place + size)
    return data[place : place + size], place + size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _signed(number: int) -> int:
    return number >> 1 ^ -(number & 1)
