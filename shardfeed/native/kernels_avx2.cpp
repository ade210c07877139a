#ifdef __x86_64__
#include "kernels.h"

#include <cstring>
#include <immintrin.h>

// Behind the headers, whose functions other machines may run.
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

extern const Kernels AVX2_KERNELS;

namespace {

__m128i eight_bytes(const uint8_t *at) { return _mm_loadl_epi64(reinterpret_cast<const __m128i *>(at)); }

// Of two pixels of the target, one in each half: the weighted sum of two neighbours in the source; red, green, blue, and
// a value without meaning.
inline __m256i both(const uint8_t *one, const uint8_t *two, const int16_t *weight_one, const int16_t *weight_two) {
    const __m128i pairs = _mm_setr_epi8(0, 3, 1, 4, 2, 5, -1, -1, 8, 11, 9, 12, 10, 13, -1, -1);
    const __m128i bytes = _mm_unpacklo_epi64(eight_bytes(one), eight_bytes(two));
    int32_t a, b;
    std::memcpy(&a, weight_one, 4), std::memcpy(&b, weight_two, 4);
    const __m256i weights = _mm256_set_m128i(_mm_set1_epi32(b), _mm_set1_epi32(a));
    return _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_shuffle_epi8(bytes, pairs)), weights);
}

void across_linear(const uint8_t *row, const int32_t *first, const int16_t *weight, int16_t *out, int wide) {
    const __m256i close = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, -1, -1, -1, -1));
    for (int x = 0; x < wide; x += 4) {
        const int16_t *w = weight + 2 * x;
        const __m256i even = both(row + 3 * first[x], row + 3 * first[x + 2], w, w + 4);
        const __m256i odd = both(row + 3 * first[x + 1], row + 3 * first[x + 3], w + 2, w + 6);
        const __m256i values = _mm256_packs_epi32(_mm256_srai_epi32(even, 4), _mm256_srai_epi32(odd, 4));
        const __m256i pixels = _mm256_shuffle_epi8(values, close);
        _mm_storeu_si128(reinterpret_cast<__m128i *>(out + 3 * x), _mm256_castsi256_si128(pixels));
        _mm_storeu_si128(reinterpret_cast<__m128i *>(out + 3 * x + 6), _mm256_extracti128_si256(pixels, 1));
    }
}

void across_triangle(const uint8_t *row, const int32_t *first, const int16_t *weight, int taps, int shift, uint8_t *out,
                     int wide) {
    const __m256i close = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 4, 5, 6, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
    const __m128i by = _mm_cvtsi32_si128(shift);
    for (int x = 0; x < wide; x += 4) {
        __m256i even = _mm256_set1_epi32(1 << (shift - 1)), odd = even;
        for (int t = 0; t < taps; t += 2) {
            const uint8_t *at = row + 3 * t;
            const int16_t *w = weight + static_cast<int64_t>(x) * taps + t;
            even = _mm256_add_epi32(even, both(at + 3 * first[x], at + 3 * first[x + 2], w, w + 2 * taps));
            odd = _mm256_add_epi32(odd, both(at + 3 * first[x + 1], at + 3 * first[x + 3], w + taps, w + 3 * taps));
        }
        const __m256i values = _mm256_packs_epi32(_mm256_sra_epi32(even, by), _mm256_sra_epi32(odd, by));
        const __m256i pixels = _mm256_shuffle_epi8(_mm256_packus_epi16(values, values), close);
        _mm_storel_epi64(reinterpret_cast<__m128i *>(out + 3 * x), _mm256_castsi256_si128(pixels));
        _mm_storel_epi64(reinterpret_cast<__m128i *>(out + 3 * x + 6), _mm256_extracti128_si256(pixels, 1));
    }
}

void down_linear(const int16_t *one, const int16_t *two, const int16_t *weight, uint8_t *out, int count) {
    const __m256i w0 = _mm256_set1_epi16(weight[0]), w1 = _mm256_set1_epi16(weight[1]), half = _mm256_set1_epi16(2);
    const auto sixteen = [&](int at) {
        const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(one + at));
        const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(two + at));
        const __m256i sum = _mm256_add_epi16(_mm256_mulhi_epi16(a, w0), _mm256_mulhi_epi16(b, w1));
        return _mm256_srai_epi16(_mm256_add_epi16(sum, half), 2);
    };
    int i = 0;
    for (; i + 32 <= count; i += 32) {
        const __m256i bytes = _mm256_packus_epi16(sixteen(i), sixteen(i + 16));
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(out + i), _mm256_permute4x64_epi64(bytes, 0xD8));
    }
    for (; i < count; i++)
        out[i] = static_cast<uint8_t>(((one[i] * weight[0] >> 16) + (two[i] * weight[1] >> 16) + 2) >> 2);
}

void down_triangle(const uint8_t *const *rows, const int16_t *weight, int taps, int shift, uint8_t *out, int count) {
    const __m128i by = _mm_cvtsi32_si128(shift);
    for (int i = 0; i < count; i += 16) {
        __m256i low = _mm256_set1_epi32(1 << (shift - 1)), high = low;
        for (int t = 0; t < taps; t += 2) {
            int32_t pair;
            std::memcpy(&pair, weight + t, 4);
            const __m256i w = _mm256_set1_epi32(pair);
            const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i *>(rows[t] + i));
            const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i *>(rows[t + 1] + i));
            low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b)), w));
            high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b)), w));
        }
        const __m256i sums = _mm256_packs_epi32(_mm256_sra_epi32(low, by), _mm256_sra_epi32(high, by));
        const __m256i ordered = _mm256_permute4x64_epi64(sums, 0xD8);
        const __m128i bytes =
            _mm_packus_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
        if (count - i >= 16) {
            _mm_storeu_si128(reinterpret_cast<__m128i *>(out + i), bytes);
        } else {
            uint8_t last[16];
            _mm_storeu_si128(reinterpret_cast<__m128i *>(last), bytes);
            std::memcpy(out + i, last, count - i);
        }
    }
}

}  // namespace

const Kernels AVX2_KERNELS{across_linear, across_triangle, down_linear, down_triangle};

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
