// The header of a sequential JPEG with one scan, read by libjpeg.
#pragma once
#include <cstddef>
#include <cstdint>

namespace shardfeed::codes {

// A Huffman table as in its segment (ITU-T T.81, B.2.4.2): the number of codes by length, and their symbols in order.
struct Codes {
    uint8_t counts[17];  // [0] is unused
    uint8_t symbols[256];
};

// A block of an MCU: its component, and the numbers of the tables for its first coefficient and for the other 63.
struct Block {
    uint8_t component, first, others;
};

// Everything that the pixels depend on besides the codes. `colors`: the color space, as numbered by libjpeg.
struct Image {
    uint32_t height, width, colors;
    uint32_t factors[3];
    uint16_t steps[3][64];  // of the quantization
};

struct Scan {
    Image image;
    int64_t mcus;
    int64_t interval;  // MCUs between restart markers, 0 for none
    int blocks;        // per MCU
    Block block[10];
    Codes first[4], others[4];
    size_t start;  // offset of the image data
};

enum class Header { clean, odd, unknown };  // odd: libjpeg warned

// Read a header with libjpeg, which checks it and all tables in use as before decoding. `unknown`: libjpeg refuses the
// file, or it has not one or three components in one sequential scan.
Header read_scan(const uint8_t *data, size_t size, Scan &scan);

}  // namespace shardfeed::codes
