#include "edit_kernels.h"

#include <algorithm>
#include <cmath>

namespace {

uint8_t clipped(int value) { return static_cast<uint8_t>(std::clamp(value, 0, 255)); }

void matrix(uint8_t *pixels, int64_t count, const ColorMatrix &by) {
    for (uint8_t *at = pixels; at < pixels + 3 * count; at += 3) {
        const int red = at[0], green = at[1], blue = at[2];
        for (int c = 0; c < 3; c++) {
            const int16_t *row = by.whole[c];
            at[c] = clipped((row[0] * red + row[1] * green + row[2] * blue + by.offset[c]) >> by.shift);
        }
    }
}

void sums(const uint8_t *pixels, int64_t count, int64_t *sums) {
    int64_t red = 0, green = 0, blue = 0;
    for (const uint8_t *at = pixels; at < pixels + 3 * count; at += 3) red += at[0], green += at[1], blue += at[2];
    sums[0] = red, sums[1] = green, sums[2] = blue;
}

void blur_across(const int16_t *row, const int16_t *weight, int radius, int step, int16_t *out, int count) {
    for (int i = 0; i < count; i++) {
        const int16_t *middle = row + i + radius * step;
        int sum = (1 << (BLUR_BITS - BLUR_KEPT - 1)) + weight[0] * middle[0];
        for (int k = 1; k <= radius; k++) sum += weight[k] * (middle[-k * step] + middle[k * step]);
        out[i] = static_cast<int16_t>(sum >> (BLUR_BITS - BLUR_KEPT));
    }
}

void blur_down(const int16_t *const *rows, const int16_t *weight, int radius, uint8_t *out, int count) {
    for (int i = 0; i < count; i++) {
        int sum = (1 << (BLUR_BITS + BLUR_KEPT - 1)) + weight[0] * rows[radius][i];
        for (int k = 1; k <= radius; k++) sum += weight[k] * (rows[radius - k][i] + rows[radius + k][i]);
        out[i] = static_cast<uint8_t>(sum >> (BLUR_BITS + BLUR_KEPT));
    }
}

void sharpen(const uint8_t *above, const uint8_t *row, const uint8_t *below, int step, int factor, uint8_t *out, int count) {
    for (int i = 0; i < count; i++) {
        int sum = 4 * row[i];
        for (const uint8_t *each : {above, row, below}) sum += each[i - step] + each[i] + each[i + step];
        const int smooth = (2 * sum + 13) / 26;
        out[i] = clipped(smooth + ((factor * (row[i] - smooth) + (1 << (SHARPNESS_BITS - 1))) >> SHARPNESS_BITS));
    }
}

// A place within -2 .. size, both of which are outside; so is what is not a number.
double inside(double place, int size) {
    place = place > -2.0 ? place : -2.0;
    return place < size ? place : size;
}

struct Place {
    double x, y;
};

Place place(const PlacesOfRow &places, int i, int height, int width) {
    double x = places.across[i] + places.x, y = places.down[i] + places.y;
    if (places.divided) {
        const double scale = places.scale[i] + places.z;
        x /= scale, y /= scale;
    }
    return {inside(x, width), inside(y, height)};
}

void nearest(const PlacesOfRow &places, int height, int width, int64_t stride, int count, int32_t *offsets) {
    for (int i = 0; i < count; i++) {
        const Place at = place(places, i, height, width);
        const int row = static_cast<int>(std::floor(at.y + 0.5)), column = static_cast<int>(std::floor(at.x + 0.5));
        offsets[i] = static_cast<int32_t>((row + 2) * stride + column + 2);
    }
}

void between(const PlacesOfRow &places, int height, int width, int64_t stride, int count, int32_t *offsets,
             int16_t *weights) {
    constexpr int ONE = 1 << PLACE_BITS;
    for (int i = 0; i < count; i++, weights += 4) {
        const Place at = place(places, i, height, width);
        const double top = std::floor(at.y), left = std::floor(at.x);
        const int down = static_cast<int>(std::rint((at.y - top) * ONE)), up = ONE - down;
        const int right = static_cast<int>(std::rint((at.x - left) * ONE)), before = ONE - right;
        offsets[i] = static_cast<int32_t>((static_cast<int>(top) + 2) * stride + static_cast<int>(left) + 2);
        weights[0] = static_cast<int16_t>(up * before), weights[1] = static_cast<int16_t>(up * right);
        weights[2] = static_cast<int16_t>(down * before), weights[3] = static_cast<int16_t>(down * right);
    }
}

void blend(const uint8_t *image, int64_t stride, int channels, const int32_t *offsets, const int16_t *weights, uint8_t *out,
           int count) {
    for (int i = 0; i < count; i++, weights += 4) {
        const uint8_t *above = image + static_cast<int64_t>(channels) * offsets[i], *below = above + channels * stride;
        for (int c = 0; c < channels; c++) {
            const int upper = weights[0] * above[c] + weights[1] * above[channels + c];
            const int lower = weights[2] * below[c] + weights[3] * below[channels + c];
            out[channels * i + c] = static_cast<uint8_t>((upper + lower + (1 << (2 * PLACE_BITS - 1))) >> (2 * PLACE_BITS));
        }
    }
}

constexpr EditKernels PLAIN{matrix, sums, blur_across, blur_down, sharpen, nearest, between, blend};

}  // namespace

const EditKernels &plain_edit_kernels() { return PLAIN; }

#ifdef __x86_64__
extern const EditKernels AVX2_EDIT_KERNELS;  // edit_kernels_avx2.cpp

const EditKernels &edit_kernels() {
    static const EditKernels &chosen = __builtin_cpu_supports("avx2") ? AVX2_EDIT_KERNELS : PLAIN;
    return chosen;
}
#else
const EditKernels &edit_kernels() { return PLAIN; }
#endif
