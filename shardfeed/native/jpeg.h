// The header of a JPEG, and the pieces of its image data between restart markers. shardfeed/jpeg/ says the same in
// Python; what is refused here is looked at there, which names what is wrong.
#pragma once

#include <vector>

#include "bytes.h"
#include "native.h"

// A sequential JPEG of 8 bits with one scan: gray, or YCbCr with the usual sampling.
struct Header {
    int height = 0, width = 0;
    int mcu_height = 8, mcu_width = 8;  // in pixels
    int interval = 0;                   // MCUs between restart markers; 0 without
    int64_t size_at = 0;                // of height and width in `needed`
    int64_t scan = 0;                   // offset of the image data
};

// Read the header of `image`; the segments that a decoder needs are copied to `needed`, where that is not null.
bool read_header(const Bytes &image, Header &header, std::vector<uint8_t> *needed);

// Whether no marker but those of restarts is in image data from `at` on, up to the end marker.
bool ends_well(const Bytes &image, int64_t at);

enum class Joined { WELL, NOT_WORTH, WRONG };

// The pieces that a view needs as a JPEG, whose pixel (0, 0) is the image's (top, left). NOT_WORTH: decode the whole.
Joined join(const Bytes &image, const Bytes &restarts, const ShardfeedView &view, std::vector<uint8_t> &joined, int &top,
            int &left);
