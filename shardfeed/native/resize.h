// Resizing of rows as a decoder gives them, bit for bit as the libraries that Python calls: without antialiasing OpenCV's
// INTER_LINEAR for bytes, with it PyTorch's bilinear interpolation for bytes (Pillow's, but for rounding).
#pragma once

#include <cstdint>
#include <vector>

class Resizer {
  public:
    // From height x width pixels to tall x wide ones, which go to `image`, uint8 [tall, wide, 3].
    void begin(int height, int width, bool mirrored, int tall, int wide, bool antialias, uint8_t *image);
    // The next row, uint8 [width, 3], with SPARE readable bytes behind it. False once nothing more is needed.
    bool feed(const uint8_t *row);
    // Bytes that may be read behind a row, and are not used.
    int spare() const { return 3 * across_.taps + 16; }

  private:
    // One direction: target place i is the sum of `taps` places from first[i] on, times weight[i * taps ...].
    struct Axis {
        int taps = 0, shift = 0;  // a sum is shifted right by so much
        std::vector<int32_t> first, last;
        std::vector<int16_t> weight;
    };
    static void linear(Axis &axis, int source, int target);
    static void triangle(Axis &axis, int source, int target);
    void emit(int y);

    bool halved_ = false, antialias_ = false;
    int tall_ = 0, wide_ = 0, row_ = 0, done_ = 0, kept_ = 0;
    int64_t stride_ = 0;
    uint8_t *image_ = nullptr;
    Axis across_, down_;
    std::vector<int16_t> sums_;   // of rows, resized across: without antialiasing
    std::vector<uint8_t> bytes_;  // likewise, with it
    std::vector<const uint8_t *> rows_;
};
