// The inner loops of resizing, each over one row: plain ones for every machine, and for x86-64 with AVX2, chosen when the
// module is loaded, others with the same results.
#pragma once

#include <cstdint>

struct Kernels {
    // OpenCV's HResizeLinear, and the shift by 4 that its VResizeLinear begins with: pixel x of `out`, int16 [wide, 3], is
    // the sum of the pixels first[x] and first[x] + 1 of `row`, weighted by weight[2 * x] and the next.
    void (*across_linear)(const uint8_t *row, const int32_t *first, const int16_t *weight, int16_t *out, int wide);
    // PyTorch's horizontal pass: likewise, the sum of `taps` pixels, an even number, shifted right by `shift`, rounded.
    void (*across_triangle)(const uint8_t *row, const int32_t *first, const int16_t *weight, int taps, int shift,
                            uint8_t *out, int wide);
    // OpenCV's VResizeLinear for bytes: `count` values of two rows.
    void (*down_linear)(const int16_t *one, const int16_t *two, const int16_t *weight, uint8_t *out, int count);
    // PyTorch's vertical pass: `count` values of `taps` rows.
    void (*down_triangle)(const uint8_t *const *rows, const int16_t *weight, int taps, int shift, uint8_t *out, int count);
};

// Bytes that may be written behind a row that is resized across; and places of the target behind the last for which
// `first` and `weight` are read.
constexpr int OVERRUN = 32, PADDING = 3;

// Those of this processor.
const Kernels &kernels();
