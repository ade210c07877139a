#include "kernels.h"

#include <algorithm>

namespace {

uint8_t clipped(int value) { return static_cast<uint8_t>(std::clamp(value, 0, 255)); }

void across_linear(const uint8_t *row, const int32_t *first, const int16_t *weight, int16_t *out, int wide) {
    for (int x = 0; x < wide; x++) {
        const uint8_t *at = row + 3 * first[x];
        for (int c = 0; c < 3; c++)
            out[3 * x + c] = static_cast<int16_t>((at[c] * weight[2 * x] + at[3 + c] * weight[2 * x + 1]) >> 4);
    }
}

void across_triangle(const uint8_t *row, const int32_t *first, const int16_t *weight, int taps, int shift, uint8_t *out,
                     int wide) {
    for (int x = 0; x < wide; x++, weight += taps) {
        int sums[3] = {1 << (shift - 1), 1 << (shift - 1), 1 << (shift - 1)};
        const uint8_t *at = row + 3 * first[x];
        for (int t = 0; t < taps; t++, at += 3)
            for (int c = 0; c < 3; c++) sums[c] += at[c] * weight[t];
        for (int c = 0; c < 3; c++) out[3 * x + c] = clipped(sums[c] >> shift);
    }
}

void down_linear(const int16_t *one, const int16_t *two, const int16_t *weight, uint8_t *out, int count) {
    for (int i = 0; i < count; i++)
        out[i] = clipped(((one[i] * weight[0] >> 16) + (two[i] * weight[1] >> 16) + 2) >> 2);
}

void down_triangle(const uint8_t *const *rows, const int16_t *weight, int taps, int shift, uint8_t *out, int count) {
    for (int i = 0; i < count; i++) {
        int sum = 1 << (shift - 1);
        for (int t = 0; t < taps; t++) sum += rows[t][i] * weight[t];
        out[i] = clipped(sum >> shift);
    }
}

constexpr Kernels PLAIN{across_linear, across_triangle, down_linear, down_triangle};

}  // namespace

#ifdef __x86_64__
extern const Kernels AVX2_KERNELS;  // kernels_avx2.cpp

const Kernels &kernels() {
    static const Kernels &chosen = __builtin_cpu_supports("avx2") ? AVX2_KERNELS : PLAIN;
    return chosen;
}
#else
const Kernels &kernels() { return PLAIN; }
#endif
