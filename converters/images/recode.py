"""Insert restart markers into the image data of a JPEG: reads and writes Huffman codes, compiled by Numba.

In a block, only the first coefficient depends on other blocks: it is coded as the difference from the previous one, and
after a restart marker from zero (ITU-T T.81, F.1.2.1). So its code is computed again, and the codes of the other 63 are
copied bit by bit.
"""

import numpy as np
from numba import int64, njit, uint32

LOOK = 10  # bits decoded by one table lookup; longer codes, which are rare, are decoded length by length
# Results of `recode`: success, a category has no code in the tables, or the data is truncated.
WELL, NO_CODE, DAMAGED = 0, 1, 2
PADDING = 16  # bytes of zeros that must follow the data
# What `state` holds between stretches: bytes written, pieces begun, bits not yet written and how many they are.
WRITTEN, PIECE, BITS, COUNT = range(4)


@njit(cache=True, nogil=True, error_model="numpy")
def recode(  # type: ignore[no-untyped-def]  # compiled for the arrays that `seekable` gives
    data, size, first, mcus, interval, blocks, short, longest, offset, symbol, code, code_size, out, state, predicted
):
    """Recode one stretch of image data between two markers.

    data: uint8 [size + PADDING], without the zeros that follow each 0xFF.
    first, mcus: number of its first MCU in the image, and how many it has. interval: MCUs of a piece, to be made.
    blocks: int64 [n, 3], of each block of an MCU its component, and the tables of its first and its other coefficients.
    short: uint16 [tables, 2 ** LOOK], length and symbol of the code that these bits begin with; 0: it is longer.
    longest, offset: int64 [tables, 17], by length the largest code (-1: none), and what added to it gives its place in
    symbol: uint8 [tables, 256]. code, code_size: int64 [tables, 12], to write categories with; size 0: there is none.
    out: uint8, large enough; state: int64 [4]; predicted: int64 [components], as written before. Both are changed.
    """
    bits, have, at = int64(0), int64(0), int64(0)
    written, piece, pending, count = state[WRITTEN], state[PIECE], state[BITS], state[COUNT]
    last = np.zeros(4, np.int64)  # the first coefficient of each component's last block, as it is read
    for mcu in range(first, first + mcus):
        if mcu > 0 and mcu % interval == 0:
            spare = -count & 7
            pending, count = pending << spare | ((1 << spare) - 1), count + spare
            while count > 0:
                count -= 8
                byte = pending >> count & 255
                out[written] = byte
                written += 1
                if byte == 255:
                    out[written] = 0
                    written += 1
            out[written], out[written + 1] = 0xFF, 0xD0 + (piece & 7)
            written += 2
            piece += 1
            predicted[:] = 0
        for block in range(len(blocks)):
            component, table = blocks[block, 0], blocks[block, 1]
            place = 0
            while place < 64:
                if count >= 32:  # so that there is room for the two longest codes
                    for _ in range(4):
                        count -= 8
                        byte = pending >> count & 255
                        out[uint32(written)] = byte
                        written += 1
                        if byte == 255:
                            out[uint32(written)] = 0
                            written += 1
                if have < 32:
                    if at > size + 8:
                        return DAMAGED
                    for _ in range(4):
                        bits, at = bits << 8 | data[uint32(at)], at + 1
                    have += 32
                found = int64(short[table, uint32(bits >> (have - LOOK) & ((1 << LOOK) - 1))])
                length, value = found >> 8, found & 255
                if found == 0:
                    length = int64(LOOK + 1)
                    while length <= 16 and (bits >> (have - length) & ((1 << length) - 1)) > longest[table, length]:
                        length += 1
                    if length > 16:
                        return DAMAGED
                    value = int64(
                        symbol[table, (bits >> (have - length) & ((1 << length) - 1)) + offset[table, length]]
                    )
                if place > 0:
                    length += value & 15
                    have -= length
                    pending, count = pending << length | (bits >> have & ((1 << length) - 1)), count + length
                    if value & 15:
                        place += (value >> 4) + 1
                        if place > 64:
                            return DAMAGED
                    elif value == 0xF0:
                        place += 16
                    else:
                        place = 64
                    continue
                if value > 11:
                    return DAMAGED
                have -= length + value
                if value > 0:
                    number = bits >> have & ((1 << value) - 1)
                    last[component] += number if number >> (value - 1) else number - (1 << value) + 1
                difference = last[component] - predicted[component]
                predicted[component] = last[component]
                category, left = 0, abs(difference)
                while left > 0:
                    category, left = category + 1, left >> 1
                if category > 11:
                    return DAMAGED
                if code_size[table, category] == 0:
                    return NO_CODE
                if difference < 0:
                    difference += (1 << category) - 1
                pending = (pending << code_size[table, category] | code[table, category]) << category | difference
                count += code_size[table, category] + category
                place, table = 1, blocks[block, 2]
    left = (size - at) * 8 + have
    if left < 0 or left >= 8:  # it ended early, or there is more of it
        return DAMAGED
    state[WRITTEN], state[PIECE], state[BITS], state[COUNT] = written, piece, pending, count
    return WELL
