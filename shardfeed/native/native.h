// What Python calls: plain C, no Python objects, no exceptions. Each function may be called from any thread, without the
// interpreter's lock. A change of this file is a new SHARDFEED_INTERFACE, here and in __init__.py.
#pragma once

#include <cstddef>
#include <cstdint>

#define SHARDFEED_INTERFACE 7
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

// A record and its JPEG. Python gives `payload` and `size`; `shardfeed_find` fills in the rest.
struct ShardfeedRecord {
    const uint8_t *payload;
    int64_t size;
    int64_t image, image_size;        // offset in the payload, bytes
    int64_t restarts, restarts_size;  // likewise, of `image/restarts`; 0 bytes where the image has none
    int64_t cuts[4];                  // entries of these two in the payload, as (first, behind) in their order; (0, 0): none
    int64_t others;                   // bytes of the Example without them
    int32_t height, width;            // of the image, in pixels
    int32_t known;                    // 0: of a kind, or damaged in a way, that only Python knows
    int32_t made;                     // here: 0 where Python must make the image, or name its damage
};

// What is to be seen of an image, in pixels of it; the decoder makes it smaller by `ratio`, 1, 2, 4 or 8.
struct ShardfeedView {
    int32_t top, left, height, width, ratio, mirrored;
};

// What is done to images once they are resized, `slots` edits each: kinds[count][slots], of edit.h, and
// numbers[count][slots][24].
struct ShardfeedEdits {
    const int32_t *kinds;
    const double *numbers;
    int64_t slots;
};

// Where the images of a view go: uint8 [count, tall, wide, 3].
struct ShardfeedTarget {
    uint8_t *images;
    int32_t tall, wide;
    ShardfeedEdits edits;
};

// Find the images of `count` records, whose Examples have `image/restarts` if `seekable`.
SHARDFEED_VISIBLE void shardfeed_find(int32_t count, ShardfeedRecord *records, int32_t seekable);

// Make `each` views of the images of `count` records, views[each * i ...] of image i. Called by several threads at once:
// each takes the next record by adding one to `next`, which begins at 0. `smooth`: subsampled colours are interpolated, which
// is libjpeg's default; else repeated, as a GPU does.
SHARDFEED_VISIBLE void shardfeed_make(int32_t count, ShardfeedRecord *records, const ShardfeedView *views, int32_t each,
                                      const ShardfeedTarget *targets, int32_t antialias, int32_t smooth, int32_t *next);

// Carry out `slots` edits of an image, uint8 [height, width, channels], of 3 channels or 1, in place. `plain`: by the loops of
// every machine, which make the same pixels. 0: memory is short, and the image may be half edited.
SHARDFEED_VISIBLE int32_t shardfeed_edit(uint8_t *image, int32_t height, int32_t width, int32_t channels,
                                         const int32_t *kinds, const double *numbers, int32_t slots, int32_t plain);

// Copy the Examples without what was cut out of them to `others`, one behind the other.
SHARDFEED_VISIBLE void shardfeed_others(int32_t count, const ShardfeedRecord *records, uint8_t *others);

// Copy the JPEGs that show the views to `data`, one behind the other, for a decoder that does not scale. `made` is 0 of
// images that Python must make, for each of which `pixels` bytes are left: those that another decoder may refuse, or
// show in other colours; with `check`, also those whose codes cannot all be read. ends[i]: the byte behind image i; what
// does not end within `room` is not written. places[11 * i]: height and width of the JPEG, top and left of the view in it.
SHARDFEED_VISIBLE void shardfeed_pack(int32_t count, int32_t check, int64_t pixels, int64_t room, ShardfeedRecord *records,
                                      const ShardfeedView *views, uint8_t *data, int64_t *ends, int32_t *places);
