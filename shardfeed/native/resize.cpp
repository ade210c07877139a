#include "resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels.h"

namespace {

constexpr int LINEAR_BITS = 11;  // OpenCV's INTER_RESIZE_COEF_BITS

void across_halved(const uint8_t *row, const int32_t *first, int16_t *out, int wide) {
    for (int x = 0; x < wide; x++)
        for (int c = 0; c < 3; c++) out[3 * x + c] = static_cast<int16_t>(row[3 * first[x] + c] + row[3 * first[x] + 3 + c]);
}

void down_halved(const int16_t *one, const int16_t *two, uint8_t *out, int count) {
    for (int i = 0; i < count; i++) out[i] = static_cast<uint8_t>((one[i] + two[i] + 2) >> 2);
}

}  // namespace

// As OpenCV computes them, in float where it does.
void Resizer::linear(Axis &axis, int source, int target) {
    const double scale = 1. / (static_cast<double>(target) / source);
    axis.taps = 2, axis.shift = 0;
    axis.first.assign(target + PADDING, 0), axis.last.assign(target, 0), axis.weight.assign(2 * (target + PADDING), 0);
    for (int i = 0; i < target; i++) {
        const float place = static_cast<float>((i + 0.5) * scale - 0.5);
        const int first = static_cast<int>(std::floor(place));
        const float share = place - static_cast<float>(first);
        axis.first[i] = first, axis.last[i] = first + 1;
        axis.weight[2 * i] = static_cast<int16_t>(std::lrint((1.f - share) * (1 << LINEAR_BITS)));
        axis.weight[2 * i + 1] = static_cast<int16_t>(std::lrint(share * (1 << LINEAR_BITS)));
    }
}

// As PyTorch computes them, in double; zeros behind them, so that `taps` is even.
void Resizer::triangle(Axis &axis, int source, int target) {
    const double scale = static_cast<double>(source) / target, wide = std::max(scale, 1.0);
    const int most = std::min(source, static_cast<int>(std::ceil(wide)) * 2 + 1);
    axis.taps = most + (most & 1);
    axis.first.assign(target + PADDING, 0), axis.last.assign(target, 0);
    std::vector<double> shares(static_cast<size_t>(axis.taps) * target);
    double largest = 0;
    int taps = 0;
    for (int i = 0; i < target; i++) {
        const double center = scale * (i + 0.5);
        const int first = std::max(static_cast<int>(center - wide + 0.5), 0);
        const int count = std::clamp(std::min(static_cast<int>(center + wide + 0.5), source) - first, 1, most);
        double *share = &shares[static_cast<size_t>(axis.taps) * i], sum = 0;
        const double inverse = scale >= 1 ? 1 / scale : 1;
        for (int t = 0; t < count; t++) {
            share[t] = std::max(0.0, 1 - std::fabs((t + first - center + 0.5) * inverse));
            sum += share[t];
        }
        for (int t = 0; t < count && sum != 0; t++) largest = std::max(largest, share[t] /= sum);
        axis.first[i] = first, axis.last[i] = first + count - 1;
        taps = std::max(taps, count);
    }
    axis.shift = 0;
    while (axis.shift < 22 && static_cast<int>(0.5 + largest * (1 << (axis.shift + 1))) < 1 << 15) axis.shift++;
    taps += taps & 1;
    axis.weight.assign(static_cast<size_t>(taps) * (target + PADDING), 0);
    for (int i = 0; i < target; i++)
        for (int t = 0; t < taps; t++)
            axis.weight[static_cast<size_t>(taps) * i + t] =
                static_cast<int16_t>(0.5 + shares[static_cast<size_t>(axis.taps) * i + t] * (1 << axis.shift));
    axis.taps = taps;
}

void Resizer::begin(int height, int width, bool mirrored, int tall, int wide, bool antialias, uint8_t *image) {
    tall_ = tall, wide_ = wide, image_ = image, antialias_ = antialias;
    row_ = done_ = 0;
    halved_ = !antialias && height == 2 * tall && width == 2 * wide;  // which OpenCV averages
    const auto weigh = antialias ? triangle : linear;
    weigh(across_, width, wide);
    weigh(down_, height, tall);
    if (halved_) {
        for (int x = 0; x < wide; x++) across_.first[x] = 2 * x;
        for (int y = 0; y < tall; y++) down_.first[y] = 2 * y, down_.last[y] = 2 * y + 1;
    } else if (!antialias) {
        for (int x = 0; x < wide; x++) {  // across, OpenCV moves what lies outside; down, it repeats the row
            const bool before = across_.first[x] < 0, behind = across_.first[x] >= width - 1;
            if (!before && !behind) continue;
            across_.first[x] = behind ? width - 1 : 0;
            across_.weight[2 * x] = 1 << LINEAR_BITS, across_.weight[2 * x + 1] = 0;
        }
        for (int y = 0; y < tall; y++) {
            down_.last[y] = std::clamp(down_.first[y] + 1, 0, height - 1);
            down_.first[y] = std::clamp(down_.first[y], 0, height - 1);
        }
    }
    if (mirrored) {
        std::reverse(across_.first.begin(), across_.first.begin() + wide);
        for (int x = 0; x < wide / 2; x++)
            std::swap_ranges(&across_.weight[across_.taps * x], &across_.weight[across_.taps * x] + across_.taps,
                             &across_.weight[across_.taps * (wide - 1 - x)]);
    }
    kept_ = down_.taps + 1;
    rows_.resize(down_.taps);
    stride_ = 3 * static_cast<int64_t>(wide) + OVERRUN;
    if (antialias)
        bytes_.resize(stride_ * kept_);
    else
        sums_.resize(stride_ * kept_);
}

bool Resizer::feed(const uint8_t *row) {
    if (done_ < tall_ && row_ >= down_.first[done_]) {  // else a row that nothing is made of
        const int64_t at = stride_ * (row_ % kept_);
        if (antialias_)
            kernels().across_triangle(row, across_.first.data(), across_.weight.data(), across_.taps, across_.shift,
                                      &bytes_[at], wide_);
        else if (halved_)
            across_halved(row, across_.first.data(), &sums_[at], wide_);
        else
            kernels().across_linear(row, across_.first.data(), across_.weight.data(), &sums_[at], wide_);
    }
    for (; done_ < tall_ && down_.last[done_] <= row_; done_++) emit(done_);
    row_++;
    return done_ < tall_;
}

void Resizer::emit(int y) {
    uint8_t *out = image_ + 3 * static_cast<int64_t>(wide_) * y;
    const int count = 3 * wide_, first = down_.first[y];
    const int16_t *weight = &down_.weight[static_cast<size_t>(down_.taps) * y];
    if (antialias_) {
        for (int t = 0; t < down_.taps; t++) rows_[t] = &bytes_[stride_ * ((first + t) % kept_)];
        kernels().down_triangle(rows_.data(), weight, down_.taps, down_.shift, out, count);
        return;
    }
    const int16_t *one = &sums_[stride_ * (first % kept_)], *two = &sums_[stride_ * (down_.last[y] % kept_)];
    if (halved_)
        down_halved(one, two, out, count);
    else
        kernels().down_linear(one, two, weight, out, count);
}
