"""TFRecord framing against bytes TensorFlow wrote, and against damage."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.errors import RecordError
from shardfeed.formats.tfrecord import (
    FRAME_BYTES,
    HEADER_BYTES,
    frame,
    frame_parts,
    mask,
    payload_length,
    unframe,
)
from shardfeed.storage.checksum import crc32c

from repository import GOLDEN


def test_crc32c_check_value() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C (RFC 3720, B.4)


@pytest.mark.parametrize(
    ("payload", "framed"),
    [
        (b"", "0000000000000000 29039807 d8ea82a2"),
        (b"a", "0100000000000000 0175de41 61 786ee428"),
        (b"abc", "0300000000000000 b099490e 616263 6e57f121"),
    ],
)
def test_known_frames(payload: bytes, framed: str) -> None:
    assert frame(payload) == bytes.fromhex(framed)
    assert unframe(bytes.fromhex(framed), "x") == payload


@pytest.mark.promise(28)
def test_golden_shard_is_frames_of_its_payloads() -> None:
    data = (GOLDEN / "golden.tfrecord").read_bytes()
    payloads = []
    offset = 0
    while offset < len(data):
        length = payload_length(data[offset : offset + HEADER_BYTES], len(data) - offset - HEADER_BYTES, "golden")
        payloads.append(unframe(data[offset : offset + length + FRAME_BYTES], "golden"))
        offset += length + FRAME_BYTES
    assert len(payloads) == len(json.loads((GOLDEN / "golden.json").read_text())["examples"])
    assert b"".join(map(frame, payloads)) == data


@given(st.lists(st.binary(max_size=300), max_size=6))
def test_parts_join_to_one_frame(parts: list[bytes]) -> None:
    payload = b"".join(parts)
    assert b"".join(frame_parts(parts)) == frame(payload)
    assert unframe(frame(payload), "x") == payload


def test_the_middle_part_is_not_copied() -> None:
    image = bytes(100_000)
    buffers = frame_parts([b"head", image, b"tail"])
    assert len(buffers) == 3
    assert buffers[1] is image


@pytest.mark.promise(19)
def test_every_flipped_bit_is_found() -> None:
    framed = frame(bytes(range(200)))
    for bit in range(len(framed) * 8):
        damaged = bytearray(framed)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RecordError):
            unframe(bytes(damaged), "x")


@pytest.mark.promise(20)
def test_every_cut_is_found() -> None:
    framed = frame(bytes(range(50)))
    for length in range(len(framed)):
        with pytest.raises(RecordError):
            unframe(framed[:length], "x")
    with pytest.raises(RecordError, match="expected 51"):
        unframe(framed + b"x", "x")


@pytest.mark.promise(21)
@pytest.mark.parametrize("length", [51, 2**31, 2**32, 2**63, 2**64 - 1])
def test_a_length_that_does_not_fit_is_refused_before_reading(length: int) -> None:
    prefix = length.to_bytes(8, "little")
    header = prefix + mask(crc32c(prefix)).to_bytes(4, "little")
    with pytest.raises(RecordError, match=r"does not fit: 54 bytes follow"):
        payload_length(header, 54, "x")
