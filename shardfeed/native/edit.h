// What augmentations do to the pixels of an image, bit for bit as pipelines/augment/values/ has it.
#pragma once

#include <cstdint>

#include "edit_kernels.h"

// The kinds of edits; pipelines/augment/edits.py has the same table, and says what their numbers mean.
enum class Edit : int32_t {
    NONE,
    MATRIX,
    POSTERIZE,
    SOLARIZE,
    EQUALIZE,
    AUTOCONTRAST,
    BLUR,
    SHARPNESS,
    WARP,
    TURN,
    ERASE,
};
constexpr int NUMBERS = 24;  // of an edit

// Carry out `slots` edits in place, in turn: kinds[slots], and numbers[slots][NUMBERS]. `image`: [height, width, channels],
// of 3 channels or 1. Whatever the numbers are, only the image is written. May throw std::bad_alloc.
void edit(uint8_t *image, int height, int width, int channels, const int32_t *kinds, const double *numbers, int slots,
          const EditKernels &kernels = edit_kernels());
