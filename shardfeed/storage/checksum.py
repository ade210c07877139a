"""CRC-32C, computed at once or piece by piece."""

import google_crc32c

crc32c = google_crc32c.value  # crc32c(b"123456789") == 0xE3069283


extend_crc32c = google_crc32c.extend  # extend_crc32c(crc32c(a), b) == crc32c(a + b)

_POLYNOMIAL = 0x82F63B78  # of CRC-32C; its highest power is the lowest bit here, and x**0 the highest
_ONE = 1 << 31


def replaced_crc32c(crc: int, old: bytes, new: bytes, behind: int) -> int:
    """Compute the CRC-32C of `new` and `behind` more bytes from the `crc` with `old`, equally long, in place of `new`.

    A CRC is linear: a difference at the beginning adds its own remainder, times x to the power of the number of bits
    after it.
    """
    assert len(old) == len(new)
    return crc ^ _product(crc32c(old) ^ crc32c(new), _power(8 * behind))


def _power(exponent: int) -> int:
    """The remainder of x**exponent."""
    result, square = _ONE, _ONE >> 1
    while exponent:
        if exponent & 1:
            result = _product(result, square)
        square = _product(square, square)
        exponent >>= 1
    return result


def _product(a: int, b: int) -> int:
    """The remainder of the product of two polynomials over GF(2)."""
    product = 0
    while a:
        if a & _ONE:
            product ^= b
        a = a << 1 & 0xFFFFFFFF
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product
