#ifdef __x86_64__
#include "edit_kernels.h"

#include <cstring>
#include <immintrin.h>

// Behind the headers, whose functions other machines may run.
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

extern const EditKernels AVX2_EDIT_KERNELS;

namespace {

__m256i load(const void *at) { return _mm256_loadu_si256(static_cast<const __m256i *>(at)); }
__m128i load_half(const void *at) { return _mm_loadu_si128(static_cast<const __m128i *>(at)); }
__m256i widened(const uint8_t *at) { return _mm256_cvtepu8_epi16(load_half(at)); }

// Two coefficients, for madd.
__m256i pair(int16_t one, int16_t two) {
    return _mm256_unpacklo_epi16(_mm256_set1_epi16(one), _mm256_set1_epi16(two));
}

// Eight pixels a turn: red and green in one register, blue in another, each with its coefficients.
void matrix(uint8_t *pixels, int64_t count, const ColorMatrix &by) {
    // The second half is read 8 bytes further on, so that no byte behind the eight pixels is.
    const __m256i red_green = _mm256_setr_epi8(0, -1, 1, -1, 3, -1, 4, -1, 6, -1, 7, -1, 9, -1, 10, -1,  //
                                               4, -1, 5, -1, 7, -1, 8, -1, 10, -1, 11, -1, 13, -1, 14, -1);
    const __m256i blue = _mm256_setr_epi8(2, -1, -1, -1, 5, -1, -1, -1, 8, -1, -1, -1, 11, -1, -1, -1,  //
                                          6, -1, -1, -1, 9, -1, -1, -1, 12, -1, -1, -1, 15, -1, -1, -1);
    const __m256i close = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11, -1, -1, -1, -1));
    const __m256i join = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 7, 7);
    const __m128i shift = _mm_cvtsi32_si128(by.shift);
    __m256i two[3], one[3], offset[3];
    for (int c = 0; c < 3; c++) {
        two[c] = pair(by.whole[c][0], by.whole[c][1]), one[c] = pair(by.whole[c][2], 0);
        offset[c] = _mm256_set1_epi32(by.offset[c]);
    }
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        uint8_t *at = pixels + 3 * i;
        const __m256i bytes = _mm256_set_m128i(load_half(at + 8), load_half(at));
        const __m256i rg = _mm256_shuffle_epi8(bytes, red_green), b = _mm256_shuffle_epi8(bytes, blue);
        __m256i made[3];
        for (int c = 0; c < 3; c++) {
            const __m256i sum = _mm256_add_epi32(_mm256_madd_epi16(rg, two[c]), _mm256_madd_epi16(b, one[c]));
            made[c] = _mm256_sra_epi32(_mm256_add_epi32(sum, offset[c]), shift);
        }
        const __m256i red_and_green = _mm256_packs_epi32(made[0], made[1]), only_blue = _mm256_packs_epi32(made[2], made[2]);
        const __m256i narrow = _mm256_packus_epi16(red_and_green, only_blue);
        const __m256i joined = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(narrow, close), join);
        _mm_storeu_si128(reinterpret_cast<__m128i *>(at), _mm256_castsi256_si128(joined));
        _mm_storel_epi64(reinterpret_cast<__m128i *>(at + 16), _mm256_extracti128_si256(joined, 1));
    }
    plain_edit_kernels().matrix(pixels + 3 * i, count - i, by);
}

// 96 bytes a turn, in six registers of 16 numbers each of which belongs to one channel.
void sums(const uint8_t *pixels, int64_t count, int64_t *sums) {
    constexpr int TURNS = 256;  // whose sums fit into 16 bits
    const int64_t size = 3 * count;
    int64_t at = 0, found[3]{};
    while (at + 96 <= size) {
        __m256i part[6]{};
        for (int turn = 0; turn < TURNS && at + 96 <= size; turn++, at += 96)
            for (int n = 0; n < 6; n++) part[n] = _mm256_add_epi16(part[n], widened(pixels + at + 16 * n));
        uint16_t values[96];
        for (int n = 0; n < 6; n++) _mm256_storeu_si256(reinterpret_cast<__m256i *>(values + 16 * n), part[n]);
        for (int n = 0; n < 96; n++) found[n % 3] += values[n];
    }
    plain_edit_kernels().sums(pixels + at, (size - at) / 3, sums);
    for (int c = 0; c < 3; c++) sums[c] += found[c];
}

// Weighted sums of 16 values, in the order of unpacklo and unpackhi.
struct Sums {
    __m256i low, high;

    explicit Sums(int first) : low(_mm256_set1_epi32(first)), high(low) {}
    void add(__m256i one, __m256i two, __m256i weights) {
        low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(one, two), weights));
        high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(one, two), weights));
    }
    __m256i shifted(int bits) const {
        return _mm256_packs_epi32(_mm256_srai_epi32(low, bits), _mm256_srai_epi32(high, bits));
    }
};

__m256i both(const int16_t *one, const int16_t *other) { return _mm256_add_epi16(load(one), load(other)); }

__m256i two_weights(const int16_t *weight) {
    int32_t pair;
    std::memcpy(&pair, weight, 4);
    return _mm256_set1_epi32(pair);
}

// The weighted sums of 32 values: the middle by itself, and the sums of two at the same distance, two distances at a time.
// The last is added twice, the second time with a weight of 0, if their number is even. `before` and `behind` give values.
template <class Side>
void weighted(const int16_t *middle, Side before, Side behind, const int16_t *weight, int radius, Sums *sums) {
    const int16_t *left = before(1), *right = behind(1);
    __m256i weights = two_weights(weight);
    for (int n = 0; n < 2; n++) sums[n].add(load(middle + 16 * n), both(left + 16 * n, right + 16 * n), weights);
    for (int k = 2; k <= radius; k += 2) {
        const int next = k < radius ? k + 1 : k;
        const int16_t *farther_left = before(next), *farther_right = behind(next);
        left = before(k), right = behind(k), weights = two_weights(weight + k);
        for (int n = 0; n < 2; n++)
            sums[n].add(both(left + 16 * n, right + 16 * n), both(farther_left + 16 * n, farther_right + 16 * n), weights);
    }
}

void blur_across(const int16_t *row, const int16_t *weight, int radius, int step, int16_t *out, int count) {
    struct Side {
        const int16_t *middle;
        int step;
        const int16_t *operator()(int away) const { return middle + away * step; }
    };
    for (int i = 0; i < count; i += 32) {
        const int16_t *middle = row + i + radius * step;
        Sums sums[]{Sums(1 << (BLUR_BITS - BLUR_KEPT - 1)), Sums(1 << (BLUR_BITS - BLUR_KEPT - 1))};
        weighted(middle, Side{middle, -step}, Side{middle, step}, weight, radius, sums);
        for (int n = 0; n < 2; n++)
            _mm256_storeu_si256(reinterpret_cast<__m256i *>(out + i + 16 * n), sums[n].shifted(BLUR_BITS - BLUR_KEPT));
    }
}

// Write the first `count` of 16 bytes.
inline void store(__m128i bytes, uint8_t *out, int count) {
    if (count >= 16) {
        _mm_storeu_si128(reinterpret_cast<__m128i *>(out), bytes);
        return;
    }
    uint8_t last[16];
    _mm_storeu_si128(reinterpret_cast<__m128i *>(last), bytes);
    std::memcpy(out, last, count);
}

// 16 numbers of 0..255, in the order of unpacklo and unpackhi, as bytes.
inline __m128i narrowed(__m256i values) {
    return _mm_packus_epi16(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
}

void blur_down(const int16_t *const *rows, const int16_t *weight, int radius, uint8_t *out, int count) {
    struct Side {
        const int16_t *const *middle;
        int step, first;
        const int16_t *operator()(int away) const { return middle[away * step] + first; }
    };
    for (int i = 0; i < count; i += 32) {
        Sums sums[]{Sums(1 << (BLUR_BITS + BLUR_KEPT - 1)), Sums(1 << (BLUR_BITS + BLUR_KEPT - 1))};
        weighted(rows[radius] + i, Side{rows + radius, -1, i}, Side{rows + radius, 1, i}, weight, radius, sums);
        for (int n = 0; n < 2 && i + 16 * n < count; n++)
            store(narrowed(sums[n].shifted(BLUR_BITS + BLUR_KEPT)), out + i + 16 * n, count - i - 16 * n);
    }
}

void sharpen(const uint8_t *above, const uint8_t *row, const uint8_t *below, int step, int factor, uint8_t *out, int count) {
    int i = 0;
    const bool fits = factor >= INT16_MIN && factor <= INT16_MAX;
    const __m256i by = pair(static_cast<int16_t>(factor), 1 << (SHARPNESS_BITS - 1)), one = _mm256_set1_epi16(1);
    for (; fits && i + 16 <= count; i += 16) {
        const auto three = [&](const uint8_t *at) {
            return _mm256_add_epi16(_mm256_add_epi16(widened(at + i - step), widened(at + i)), widened(at + i + step));
        };
        const __m256i middle = widened(row + i);
        __m256i sum = _mm256_add_epi16(_mm256_add_epi16(three(above), three(row)), three(below));
        sum = _mm256_add_epi16(sum, _mm256_slli_epi16(middle, 2));
        // (2 * sum + 13) / 26: times 20165 / 2^19, which is exact for all numbers below 2^18.
        const __m256i twice = _mm256_add_epi16(_mm256_add_epi16(sum, sum), _mm256_set1_epi16(13));
        const __m256i smooth = _mm256_srli_epi16(_mm256_mulhi_epu16(twice, _mm256_set1_epi16(20165)), 3);
        const __m256i rest = _mm256_sub_epi16(middle, smooth);
        const __m256i low = _mm256_srai_epi32(_mm256_madd_epi16(_mm256_unpacklo_epi16(rest, one), by), SHARPNESS_BITS);
        const __m256i high = _mm256_srai_epi32(_mm256_madd_epi16(_mm256_unpackhi_epi16(rest, one), by), SHARPNESS_BITS);
        const __m256i made = _mm256_add_epi16(smooth, _mm256_packs_epi32(low, high));
        _mm_storeu_si128(reinterpret_cast<__m128i *>(out + i), narrowed(made));
    }
    plain_edit_kernels().sharpen(above + i, row + i, below + i, step, factor, out + i, count - i);
}

// Four places at once, as edit_kernels.cpp computes them: within -2 .. size.
inline void four_places(const PlacesOfRow &places, int i, int height, int width, __m256d *x, __m256d *y) {
    *x = _mm256_add_pd(_mm256_loadu_pd(places.across + i), _mm256_set1_pd(places.x));
    *y = _mm256_add_pd(_mm256_loadu_pd(places.down + i), _mm256_set1_pd(places.y));
    if (places.divided) {
        const __m256d scale = _mm256_add_pd(_mm256_loadu_pd(places.scale + i), _mm256_set1_pd(places.z));
        *x = _mm256_div_pd(*x, scale), *y = _mm256_div_pd(*y, scale);
    }
    const __m256d least = _mm256_set1_pd(-2);  // also in place of what is not a number
    *x = _mm256_min_pd(_mm256_max_pd(*x, least), _mm256_set1_pd(width));
    *y = _mm256_min_pd(_mm256_max_pd(*y, least), _mm256_set1_pd(height));
}

inline __m128i four_offsets(__m256d row, __m256d column, int64_t stride) {
    const __m128i two = _mm_set1_epi32(2);
    const __m128i down = _mm_add_epi32(_mm256_cvttpd_epi32(row), two);
    const __m128i right = _mm_add_epi32(_mm256_cvttpd_epi32(column), two);
    return _mm_add_epi32(_mm_mullo_epi32(down, _mm_set1_epi32(static_cast<int>(stride))), right);
}

// Those behind the first `i`.
inline PlacesOfRow behind(const PlacesOfRow &places, int i) {
    PlacesOfRow rest = places;
    rest.across += i, rest.down += i, rest.scale += i;
    return rest;
}

void nearest(const PlacesOfRow &places, int height, int width, int64_t stride, int count, int32_t *offsets) {
    int i = 0;
    const __m256d half = _mm256_set1_pd(0.5);
    for (; i + 4 <= count; i += 4) {
        __m256d x, y;
        four_places(places, i, height, width, &x, &y);
        const __m256d row = _mm256_floor_pd(_mm256_add_pd(y, half)), column = _mm256_floor_pd(_mm256_add_pd(x, half));
        _mm_storeu_si128(reinterpret_cast<__m128i *>(offsets + i), four_offsets(row, column, stride));
    }
    plain_edit_kernels().nearest(behind(places, i), height, width, stride, count - i, offsets + i);
}

void between(const PlacesOfRow &places, int height, int width, int64_t stride, int count, int32_t *offsets,
             int16_t *weights) {
    int i = 0;
    const __m256d scale = _mm256_set1_pd(1 << PLACE_BITS);
    const __m128i one = _mm_set1_epi32(1 << PLACE_BITS);
    for (; i + 4 <= count; i += 4) {
        __m256d x, y;
        four_places(places, i, height, width, &x, &y);
        const __m256d top = _mm256_floor_pd(y), left = _mm256_floor_pd(x);
        _mm_storeu_si128(reinterpret_cast<__m128i *>(offsets + i), four_offsets(top, left, stride));
        const __m128i down = _mm256_cvtpd_epi32(_mm256_mul_pd(_mm256_sub_pd(y, top), scale));
        const __m128i right = _mm256_cvtpd_epi32(_mm256_mul_pd(_mm256_sub_pd(x, left), scale));
        const __m128i up = _mm_sub_epi32(one, down);
        const __m128i across = _mm_or_si128(_mm_sub_epi32(one, right), _mm_slli_epi32(right, 16));  // two weights in 32 bits
        const __m128i both = _mm_or_si128(up, _mm_slli_epi32(up, 16)), under = _mm_or_si128(down, _mm_slli_epi32(down, 16));
        const __m128i upper = _mm_mullo_epi16(across, both), lower = _mm_mullo_epi16(across, under);
        _mm_storeu_si128(reinterpret_cast<__m128i *>(weights + 4 * i), _mm_unpacklo_epi32(upper, lower));
        _mm_storeu_si128(reinterpret_cast<__m128i *>(weights + 4 * i + 8), _mm_unpackhi_epi32(upper, lower));
    }
    plain_edit_kernels().between(behind(places, i), height, width, stride, count - i, offsets + i, weights + 4 * i);
}

// Two pixels a turn, one in each half: red, green and blue of two neighbours in pairs, then of the two below.
void blend(const uint8_t *image, int64_t stride, int channels, const int32_t *offsets, const int16_t *weights, uint8_t *out,
           int count) {
    int i = 0;
    const __m128i pairs = _mm_setr_epi8(0, 3, 1, 4, 2, 5, -1, -1, 8, 11, 9, 12, 10, 13, -1, -1);
    const __m128i close = _mm_setr_epi8(0, 1, 2, 4, 5, 6, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m256i half = _mm256_set1_epi32(1 << (2 * PLACE_BITS - 1));
    const auto eight = [](const uint8_t *at) { return _mm_loadl_epi64(reinterpret_cast<const __m128i *>(at)); };
    for (; channels == 3 && i + 3 <= count; i += 2) {  // of the third pixel two bytes are written, and then written again
        const uint8_t *one = image + 3 * int64_t{offsets[i]}, *two = image + 3 * int64_t{offsets[i + 1]};
        const __m128i above = _mm_shuffle_epi8(_mm_unpacklo_epi64(eight(one), eight(two)), pairs);
        const __m128i below = _mm_shuffle_epi8(_mm_unpacklo_epi64(eight(one + 3 * stride), eight(two + 3 * stride)), pairs);
        const __m128i four = load_half(weights + 4 * i);  // upper and lower of one, upper and lower of two
        const __m256i upper = _mm256_set_m128i(_mm_shuffle_epi32(four, 0xAA), _mm_shuffle_epi32(four, 0x00));
        const __m256i lower = _mm256_set_m128i(_mm_shuffle_epi32(four, 0xFF), _mm_shuffle_epi32(four, 0x55));
        __m256i sum = _mm256_madd_epi16(_mm256_cvtepu8_epi16(above), upper);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_cvtepu8_epi16(below), lower));
        sum = _mm256_srli_epi32(_mm256_add_epi32(sum, half), 2 * PLACE_BITS);
        const __m128i values = _mm_packs_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
        const __m128i bytes = _mm_shuffle_epi8(_mm_packus_epi16(values, values), close);
        _mm_storel_epi64(reinterpret_cast<__m128i *>(out + 3 * i), bytes);
    }
    plain_edit_kernels().blend(image, stride, channels, offsets + i, weights + 4 * i, out + channels * i, count - i);
}

}  // namespace

const EditKernels AVX2_EDIT_KERNELS{matrix, sums, blur_across, blur_down, sharpen, nearest, between, blend};

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
