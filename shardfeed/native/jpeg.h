// The header of a JPEG, and the pieces of its image data between restart markers. shardfeed/formats/jpeg_markers.py and
// jpeg_restarts.py say the same in Python; what is refused here is looked at there, which names what is wrong.
#pragma once

#include <vector>

#include "bytes.h"
#include "native.h"

// A sequential JPEG of 8 bits with one scan: gray, or YCbCr with the usual sampling.
struct Header {
    int height = 0, width = 0;
    int mcu_height = 8, mcu_width = 8;  // in pixels
    int interval = 0;                   // MCUs between restart markers; 0 without
    bool odd_colors = false;            // of three components, by Adobe's marker or their names: maybe not YCbCr
    int64_t size_at = 0;                // of height and width in `needed`
    int64_t scan = 0;                   // offset of the image data
};

// Read the header of `image`; the segments that a decoder needs are copied to `needed`, where that is not null.
bool read_header(const Bytes &image, Header &header, std::vector<uint8_t> *needed);

// Whether no marker but those of restarts is in image data from `at` on, up to the end marker.
bool ends_well(const Bytes &image, int64_t at);

// The JPEG that shows a view: all of an image, or the pieces of it that the view needs. Its pixel (0, 0) is the image's
// (top, left).
struct Part {
    Bytes data;  // of the record, or in `joined`
    Header header;
    int top = 0, left = 0;
};

// Find it for the image of a record. False if it is damaged.
bool part_for(const ShardfeedRecord &record, const ShardfeedView &view, std::vector<uint8_t> &joined, Part &part);
