// What Python calls: plain C, no Python objects, no exceptions. Each function may be called from any thread, without the
// interpreter's lock. A change of this file is a new SHARDFEED_INTERFACE, here and in __init__.py.
#pragma once

#include <cstddef>
#include <cstdint>

#define SHARDFEED_INTERFACE 2
#define SHARDFEED_VISIBLE extern "C" __attribute__((visibility("default")))

// SHARDFEED_INTERFACE of what was built.
SHARDFEED_VISIBLE int32_t shardfeed_interface();

// The version of libjpeg-turbo, such as 2001005 for 2.1.5, that this was built against; 0 if what was loaded is another
// library, which cannot be used.
SHARDFEED_VISIBLE int32_t shardfeed_jpeg();

// Results of shardfeed_recode other than a number of bytes: libjpeg refuses the header, or the JPEG is not gray or of three
// components in one sequential scan; a code is damaged; a marker is missing or is not the expected one; a table has no
// code for a difference; `room` is too small, or memory.
enum { SHARDFEED_UNKNOWN = -1, SHARDFEED_DAMAGED = -2, SHARDFEED_MARKER = -3, SHARDFEED_NO_CODE = -4, SHARDFEED_NO_ROOM = -5 };

// Write the image data of a JPEG of `size` bytes with a restart marker every `interval` MCUs, without header and end
// marker. `usual`: nullptr to write with the tables of the JPEG, or two tables for first coefficients, each of 16 counts
// and 12 symbols. Returns the number of bytes.
SHARDFEED_VISIBLE int64_t shardfeed_recode(const uint8_t *data, size_t size, int64_t interval, const uint8_t *usual,
                                           uint8_t *out, size_t room);

// 1 if every code of a sequential JPEG can be read, and libjpeg decodes it without a warning; 0 if libjpeg must judge.
SHARDFEED_VISIBLE int32_t shardfeed_is_whole(const uint8_t *data, size_t size);

// 1 if two sequential JPEGs have the same coefficients and decode to the same pixels; 0 if a decoder must judge.
SHARDFEED_VISIBLE int32_t shardfeed_same_codes(const uint8_t *data, size_t size, const uint8_t *other, size_t other_size);
