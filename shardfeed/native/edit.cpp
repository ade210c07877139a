#include "edit.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "native.h"

namespace {

constexpr int LEVELS = 256, FINEST = 14;         // bits of the fraction of a coefficient, at most
constexpr int FARTHEST = 300;                    // pixels that a blur reaches, at most
constexpr int AROUND = 2;                        // pixels around the copy that a warp reads
constexpr double BRIGHTNESS[]{0.299, 0.587, 0.114};  // of red, green and blue, as in colors.py
constexpr int MOST_OFFSET = 1 << 30;             // far outside 0..255, whatever the shift

// What a thread uses again for each image.
struct Scratch {
    std::vector<uint8_t> copy;
    std::vector<int16_t> padded, rows, weights;
    std::vector<const int16_t *> around;
    std::vector<double> places;
    std::vector<int32_t> offsets;
};

Scratch &scratch() {
    thread_local Scratch own;
    return own;
}

template <class T> T *room(std::vector<T> &memory, size_t size) {
    if (memory.size() < size) memory.resize(size);
    return memory.data();
}

struct Image {
    uint8_t *pixels;
    int height, width, channels;

    int64_t count() const { return static_cast<int64_t>(height) * width; }
    int64_t stride() const { return static_cast<int64_t>(width) * channels; }
    int64_t size() const { return count() * channels; }
    uint8_t *row(int y) const { return pixels + stride() * y; }
};

// A whole number within bounds, from whatever it is: what is not a number is `least`.
int whole(double number, int least, int most) {
    if (!(number > least)) return least;
    return number < most ? static_cast<int>(number) : most;
}

uint8_t color(double number) { return static_cast<uint8_t>(whole(number, 0, 255)); }

// The image as it is, to read from while it is written.
const uint8_t *copied(const Image &image) {
    uint8_t *copy = room(scratch().copy, image.size() + EDIT_OVERRUN);
    std::memcpy(copy, image.pixels, image.size());
    return copy;
}

// MATRIX

struct Linear {
    double matrix[3][3], of_mean[3][3], added[3];
};

Linear linear(const double *numbers) {
    Linear made;
    std::memcpy(made.matrix, numbers, sizeof made.matrix);
    std::memcpy(made.of_mean, numbers + 9, sizeof made.of_mean);
    std::memcpy(made.added, numbers + 18, sizeof made.added);
    return made;
}

// What a gray colour becomes, as brightness: one coefficient.
double of_gray(const double matrix[3][3]) {
    double sum = 0;
    for (int c = 0; c < 3; c++) sum += BRIGHTNESS[c] * (matrix[c][0] + matrix[c][1] + matrix[c][2]);
    return sum;
}

// A Linear whose first coefficients are those of one channel.
Linear of_one_channel(const Linear &by) {
    Linear made{};
    made.matrix[0][0] = of_gray(by.matrix), made.of_mean[0][0] = of_gray(by.of_mean);
    for (int c = 0; c < 3; c++) made.added[0] += BRIGHTNESS[c] * by.added[c];
    return made;
}

bool is_zero(const double (&matrix)[3][3]) {
    return std::all_of(&matrix[0][0], &matrix[0][0] + 9, [](double each) { return each == 0; });
}

void mean_of(const Image &image, const EditKernels &kernels, double *mean) {
    int64_t sums[3]{};
    if (image.channels == 3)
        kernels.sums(image.pixels, image.count(), sums);
    else
        for (int64_t i = 0; i < image.size(); i++) sums[0] += image.pixels[i];
    for (int c = 0; c < 3; c++) mean[c] = static_cast<double>(sums[c]) / static_cast<double>(image.count());
}

ColorMatrix quantised(const Linear &by, const double *mean) {
    double most = 0;
    for (const auto &row : by.matrix)
        for (const double each : row) most = std::max(most, std::abs(each));
    int exponent = 0;
    if (std::isfinite(most)) std::frexp(most, &exponent);
    ColorMatrix made{};
    made.shift = std::clamp(15 - exponent, 0, FINEST);
    const double scale = 1 << made.shift;
    for (int c = 0; c < 3; c++) {
        for (int i = 0; i < 3; i++)
            made.whole[c][i] = static_cast<int16_t>(whole(std::rint(by.matrix[c][i] * scale), -32767, 32767));
        double offset = by.added[c];
        for (int i = 0; i < 3; i++) offset += by.of_mean[c][i] * mean[i];
        made.offset[c] = whole(std::rint(offset * scale), -MOST_OFFSET, MOST_OFFSET) + ((1 << made.shift) >> 1);
    }
    return made;
}

void matrix(const Image &image, const double *numbers, const EditKernels &kernels) {
    const Linear by = image.channels == 3 ? linear(numbers) : of_one_channel(linear(numbers));
    double mean[3]{};
    if (!is_zero(by.of_mean)) mean_of(image, kernels, mean);
    const ColorMatrix found = quantised(by, mean);
    if (image.channels == 3) {
        kernels.matrix(image.pixels, image.count(), found);
        return;
    }
    uint8_t table[LEVELS];
    for (int v = 0; v < LEVELS; v++)
        table[v] = static_cast<uint8_t>(std::clamp((found.whole[0][0] * v + found.offset[0]) >> found.shift, 0, 255));
    for (int64_t i = 0; i < image.size(); i++) image.pixels[i] = table[image.pixels[i]];
}

// Tables

using Table = uint8_t[LEVELS];
using Histogram = int64_t[LEVELS];

bool is_table(Edit kind) { return kind >= Edit::POSTERIZE && kind <= Edit::AUTOCONTRAST; }

bool counts_values(Edit kind) { return kind == Edit::EQUALIZE || kind == Edit::AUTOCONTRAST; }

// How often each value is in each channel; several tables, so that equal neighbours do not wait for each other.
void count_values(const Image &image, Histogram *counts) {
    constexpr int TABLES = 4;
    uint32_t found[TABLES][3][LEVELS]{};
    const int channels = image.channels;
    const uint8_t *at = image.pixels, *end = image.pixels + image.size();
    for (; at + TABLES * channels <= end; at += TABLES * channels)
        for (int t = 0; t < TABLES; t++)
            for (int c = 0; c < channels; c++) found[t][c][at[t * channels + c]]++;
    for (; at < end; at += channels)
        for (int c = 0; c < channels; c++) found[0][c][at[c]]++;
    for (int c = 0; c < channels; c++)
        for (int v = 0; v < LEVELS; v++) {
            counts[c][v] = 0;
            for (const auto &table : found) counts[c][v] += table[c][v];
        }
}

// The table by which all values become about equally frequent.
void equalize(const Histogram &counts, Table &table) {
    int64_t total = 0, last = 0;
    for (const int64_t count : counts) total += count, last = count ? count : last;
    const int64_t step = (total - last) / 255;
    int64_t below = step / 2;
    for (int v = 0; v < LEVELS; v++) {
        table[v] = static_cast<uint8_t>(step ? std::min<int64_t>(below / step, 255) : v);
        below += counts[v];
    }
}

// The table by which the darkest value becomes 0 and the brightest 255.
void stretch(const Histogram &counts, Table &table) {
    int low = 0, high = LEVELS - 1;
    while (low < high && !counts[low]) low++;
    while (high > low && !counts[high]) high--;
    const int span = high - low;
    for (int v = 0; v < LEVELS; v++)
        table[v] = static_cast<uint8_t>(span ? std::clamp((510 * (v - low) + span) / (2 * span), 0, 255) : v);
}

void make_table(Edit kind, double number, const Histogram &counts, Table &table) {
    switch (kind) {
    case Edit::POSTERIZE: {
        const int kept = 0xFF << (8 - whole(number, 0, 8));
        for (int v = 0; v < LEVELS; v++) table[v] = static_cast<uint8_t>(v & kept);
        break;
    }
    case Edit::SOLARIZE:
        for (int v = 0; v < LEVELS; v++) table[v] = static_cast<uint8_t>(v >= number ? 255 - v : v);
        break;
    case Edit::EQUALIZE: equalize(counts, table); break;
    default: stretch(counts, table);  // AUTOCONTRAST
    }
}

// What tables that follow each other make of each value, in one pass.
class Tables {
public:
    void add(const Image &image, Edit kind, double number) {
        if (!pending_)
            for (Table &table : tables_)
                for (int v = 0; v < LEVELS; v++) table[v] = static_cast<uint8_t>(v);
        pending_ = true;
        if (counts_values(kind) && !counted_) count_values(image, counts_), counted_ = true;
        for (int c = 0; c < image.channels; c++) {
            Histogram now{};  // of the values as they are after the tables before
            if (counts_values(kind))
                for (int v = 0; v < LEVELS; v++) now[tables_[c][v]] += counts_[c][v];
            Table next;
            make_table(kind, number, now, next);
            for (uint8_t &value : tables_[c]) value = next[value];
        }
    }

    void flush(const Image &image) {
        if (!pending_) return;
        pending_ = counted_ = false;
        uint8_t *at = image.pixels, *end = image.pixels + image.size();
        if (image.channels == 3)
            for (; at < end; at += 3) at[0] = tables_[0][at[0]], at[1] = tables_[1][at[1]], at[2] = tables_[2][at[2]];
        else
            for (; at < end; at++) *at = tables_[0][*at];
    }

private:
    bool pending_ = false, counted_ = false;
    Table tables_[3];
    Histogram counts_[3];  // of the image, before all of these tables
};

// BLUR

// The weights of a pixel and of those up to `radius` away, times 2^14, and a 0; returns the radius. Each is the difference
// of two rounded sums, so that all are 2^14.
int weigh(double sigma, double most, std::vector<int16_t> &weights) {
    int radius = sigma > 0 ? whole(std::ceil(3 * sigma), 0, whole(most, 0, FARTHEST)) : 0;
    weights.assign(radius + 2, 0);
    double shares[FARTHEST + 1], total = 1;
    for (int k = 1; k <= radius; k++) {
        const double away = k / sigma;
        shares[k] = std::exp(-0.5 * (away * away));
        total += 2 * shares[k];
    }
    double beyond = 0;
    int before = 0;
    for (int k = radius; k >= 1; k--) {
        beyond += shares[k];
        const int sum = static_cast<int>(std::rint(beyond / total * (1 << BLUR_BITS)));
        weights[k] = static_cast<int16_t>(sum - before);
        before = sum;
    }
    weights[0] = static_cast<int16_t>((1 << BLUR_BITS) - 2 * before);
    while (radius && !weights[radius]) radius--;
    return radius;
}

// A place within 0 .. size - 1, mirrored as often as that takes.
int mirrored(int place, int size) {
    if (place >= 0 && place < size) return place;
    const int period = std::max(1, 2 * (size - 1));
    place = std::abs(place) % period;
    return place < size ? place : period - place;
}

// A row as int16, with its mirror images on both sides.
void pad(const uint8_t *row, int width, int channels, int radius, int16_t *out) {
    for (int x = -radius; x < 0; x++)
        for (int c = 0; c < channels; c++) *out++ = row[mirrored(x, width) * channels + c];
    for (int i = 0; i < width * channels; i++) *out++ = row[i];
    for (int x = width; x < width + radius; x++)
        for (int c = 0; c < channels; c++) *out++ = row[mirrored(x, width) * channels + c];
}

void blur(const Image &image, const double *numbers, const EditKernels &kernels) {
    Scratch &own = scratch();
    const int radius = weigh(numbers[0], numbers[1], own.weights), channels = image.channels;
    if (!radius) return;
    const int count = image.width * channels, kept = std::min(image.height, 2 * radius + 1);
    const int64_t stride = count + EDIT_OVERRUN;
    int16_t *padded = room(own.padded, count + 2 * static_cast<int64_t>(radius) * channels + EDIT_OVERRUN);
    int16_t *rows = room(own.rows, stride * kept);
    const int16_t **around = room(own.around, 2 * static_cast<size_t>(radius) + 1);
    int done = 0;  // rows that are blurred across
    for (int y = 0; y < image.height; y++) {
        for (; done < image.height && done <= y + radius; done++) {
            pad(image.row(done), image.width, channels, radius, padded);
            kernels.blur_across(padded, own.weights.data(), radius, channels, rows + stride * (done % kept), count);
        }
        for (int k = -radius; k <= radius; k++)
            around[k + radius] = rows + stride * (mirrored(y + k, image.height) % kept);
        kernels.blur_down(around, own.weights.data(), radius, image.row(y), count);
    }
}

void sharpness(const Image &image, const double *numbers, const EditKernels &kernels) {
    if (image.height < 3 || image.width < 3) return;
    constexpr int MOST = 1 << 22;
    const int factor = whole(std::rint(numbers[0] * (1 << SHARPNESS_BITS)), -MOST, MOST), step = image.channels;
    const int64_t stride = image.stride();
    const uint8_t *copy = copied(image);
    for (int y = 1; y < image.height - 1; y++) {
        const uint8_t *row = copy + stride * y + step;
        kernels.sharpen(row - stride, row, row + stride, step, factor, image.row(y) + step, step * (image.width - 2));
    }
}

// WARP

// A copy with the colour of what is outside around it, which far places are read from.
const uint8_t *framed(const Image &image, const double *fill) {
    uint8_t colors[3]{color(fill[0]), color(fill[1]), color(fill[2])};
    const int channels = image.channels, frame = AROUND * channels;
    const int64_t stride = image.stride() + 2 * frame;
    uint8_t *copy = room(scratch().copy, stride * (image.height + 2 * AROUND) + EDIT_OVERRUN);
    for (int64_t i = 0; i < stride; i++) copy[i] = colors[i % channels];
    for (int y = 1; y < image.height + 2 * AROUND; y++) {
        uint8_t *row = copy + stride * y;
        const bool is_inside = y >= AROUND && y < image.height + AROUND;
        std::memcpy(row, copy, is_inside ? frame : stride);
        if (!is_inside) continue;
        std::memcpy(row + frame, image.row(y - AROUND), image.stride());
        std::memcpy(row + frame + image.stride(), copy, frame);
    }
    return copy;
}

void take(const uint8_t *from, const int32_t *offsets, int channels, uint8_t *out, int count) {
    if (channels == 1) {
        for (int i = 0; i < count; i++) out[i] = from[offsets[i]];
        return;
    }
    int i = 0;
    for (; i + 1 < count; i++) std::memcpy(out + 3 * i, from + 3 * int64_t{offsets[i]}, 4);  // the next writes the last again
    for (; i < count; i++) std::memcpy(out + 3 * i, from + 3 * int64_t{offsets[i]}, 3);
}

void warp(const Image &image, const double *numbers, const EditKernels &kernels) {
    Scratch &own = scratch();
    const int width = image.width, channels = image.channels;
    const uint8_t *copy = framed(image, numbers + 10);
    const int64_t stride = width + 2 * AROUND;
    double *across = room(own.places, 3 * static_cast<size_t>(width)), *down = across + width, *scale = down + width;
    for (int x = 0; x < width; x++)
        across[x] = numbers[0] * x, down[x] = numbers[3] * x, scale[x] = numbers[6] * x;
    int32_t *offsets = room(own.offsets, width);
    int16_t *weights = room(own.weights, 4 * static_cast<size_t>(width));
    const bool divided = numbers[6] != 0 || numbers[7] != 0 || numbers[8] != 1;
    for (int y = 0; y < image.height; y++) {
        const PlacesOfRow places{across, down, scale, numbers[1] * y + numbers[2], numbers[4] * y + numbers[5],
                                 numbers[7] * y + numbers[8], divided};
        if (numbers[9] == 0) {
            kernels.nearest(places, image.height, width, stride, width, offsets);
            take(copy, offsets, channels, image.row(y), width);
        } else {
            kernels.between(places, image.height, width, stride, width, offsets, weights);
            kernels.blend(copy, stride, channels, offsets, weights, image.row(y), width);
        }
    }
}

// Pixels `step` bytes apart, one behind the other.
void line(const uint8_t *from, int64_t step, int channels, uint8_t *out, int count) {
    if (channels == 1) {
        for (int i = 0; i < count; i++) out[i] = from[i * step];
        return;
    }
    for (int i = 0; i < count; i++, out += 3) {
        const uint8_t *pixel = from + i * step;
        out[0] = pixel[0], out[1] = pixel[1], out[2] = pixel[2];
    }
}

void turn(const Image &image, const double *numbers) {
    const int quarters = whole(numbers[0], 0, 3), height = image.height, width = image.width, channels = image.channels;
    if (quarters % 2 && height != width) return;
    const bool reversed = numbers[1] != 0;
    if (!quarters && !reversed) return;
    const uint8_t *copy = copied(image);
    for (int y = 0; y < height; y++) {
        const int row = reversed ? height - 1 - y : y;  // of the turned image
        const int first_y[]{row, 0, height - 1 - row, height - 1}, first_x[]{0, width - 1 - row, width - 1, row};
        const int64_t steps[]{1, width, -1, -width};
        const uint8_t *from = copy + (static_cast<int64_t>(first_y[quarters]) * width + first_x[quarters]) * channels;
        line(from, steps[quarters] * channels, channels, image.row(y), width);
    }
}

void erase(const Image &image, const double *numbers) {
    const int top = whole(numbers[0], 0, image.height), left = whole(numbers[1], 0, image.width);
    const int height = whole(numbers[2], 0, image.height - top), width = whole(numbers[3], 0, image.width - left);
    const int channels = image.channels;
    const uint8_t colors[]{color(numbers[4]), color(numbers[5]), color(numbers[6])};
    for (int y = top; y < top + height; y++) {
        uint8_t *out = image.row(y) + static_cast<int64_t>(left) * channels;
        for (int x = 0; x < width; x++)
            for (int c = 0; c < channels; c++) *out++ = colors[c];
    }
}

void edit_once(const Image &image, Edit kind, const double *numbers, const EditKernels &kernels) {
    switch (kind) {
    case Edit::MATRIX: return matrix(image, numbers, kernels);
    case Edit::BLUR: return blur(image, numbers, kernels);
    case Edit::SHARPNESS: return sharpness(image, numbers, kernels);
    case Edit::WARP: return warp(image, numbers, kernels);
    case Edit::TURN: return turn(image, numbers);
    case Edit::ERASE: return erase(image, numbers);
    default: return;
    }
}

}  // namespace

void edit(uint8_t *image, int height, int width, int channels, const int32_t *kinds, const double *numbers, int slots,
          const EditKernels &kernels) {
    const Image whole_image{image, height, width, channels};
    if (height < 1 || width < 1) return;
    Tables tables;
    for (int slot = 0; slot < slots; slot++, numbers += NUMBERS) {
        const Edit kind = static_cast<Edit>(kinds[slot]);
        if (is_table(kind)) {
            tables.add(whole_image, kind, numbers[0]);
        } else if (kind != Edit::NONE) {
            tables.flush(whole_image);
            edit_once(whole_image, kind, numbers, kernels);
        }
    }
    tables.flush(whole_image);
}

int32_t shardfeed_edit(uint8_t *image, int32_t height, int32_t width, int32_t channels, const int32_t *kinds,
                       const double *numbers, int32_t slots, int32_t plain) {
    try {
        edit(image, height, width, channels, kinds, numbers, slots, plain ? plain_edit_kernels() : edit_kernels());
    } catch (...) {
        return 0;
    }
    return 1;
}
