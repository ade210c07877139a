// The inner loops of edits: plain ones for every machine, and for x86-64 with AVX2, chosen when the module is loaded,
// others with the same results.
#pragma once

#include <cstdint>

// Bits of the fraction of a blur's weight, of what is kept of it between its two passes, of the factor of a sharpness, and
// of a place between two pixels.
constexpr int BLUR_BITS = 14, BLUR_KEPT = 6, SHARPNESS_BITS = 12, PLACE_BITS = 7;

// A matrix of colours in whole numbers: out = (whole * pixel + offset) >> shift, clipped.
struct ColorMatrix {
    int16_t whole[3][3];
    int32_t offset[3];
    int shift;
};

// The places in the old image of a row of the new one: pixel i comes from (across[i] + x) / (scale[i] + z), and likewise.
struct PlacesOfRow {
    const double *across, *down, *scale;
    double x, y, z;
    bool divided;  // else the divisor is 1
};

struct EditKernels {
    // The colours of `count` pixels of 3 channels, in place.
    void (*matrix)(uint8_t *pixels, int64_t count, const ColorMatrix &by);
    // The sum of each of 3 channels.
    void (*sums)(const uint8_t *pixels, int64_t count, int64_t *sums);
    // A blur across: value i of `out` is the weighted sum of row[i + radius * step] and its neighbours, `step` apart, up to
    // `radius` away, at least 1. weight[0] is that of the middle; an even number of weights is read, behind the last a 0.
    void (*blur_across)(const int16_t *row, const int16_t *weight, int radius, int step, int16_t *out, int count);
    // A blur down: of rows[0 .. 2 * radius].
    void (*blur_down)(const int16_t *const *rows, const int16_t *weight, int radius, uint8_t *out, int count);
    // `count` values of `row`, whose neighbours are `step` apart, blended with a smoothed row. |factor| <= 2^22.
    void (*sharpen)(const uint8_t *above, const uint8_t *row, const uint8_t *below, int step, int factor, uint8_t *out,
                    int count);
    // Which pixel is nearest to each place, as an offset in pixels of an image with two more on each side, `stride` wide.
    void (*nearest)(const PlacesOfRow &places, int height, int width, int64_t stride, int count, int32_t *offsets);
    // Likewise, the upper left one of four pixels, and the weights of these, int16 [count, 4].
    void (*between)(const PlacesOfRow &places, int height, int width, int64_t stride, int count, int32_t *offsets,
                    int16_t *weights);
    // The weighted sums of four pixels each.
    void (*blend)(const uint8_t *image, int64_t stride, int channels, const int32_t *offsets, const int16_t *weights,
                  uint8_t *out, int count);
};

// Values behind a row that blur_across reads and writes, and that blur_down reads; bytes behind an image that `blend` reads.
constexpr int EDIT_OVERRUN = 32;

// Those of this processor, and those of every one.
const EditKernels &edit_kernels();
const EditKernels &plain_edit_kernels();
