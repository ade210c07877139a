// From JPEGs in records to a batch's pixels. A thread has one decoder, and reads the rows of a window into its cache,
// from where they are resized at once.
#include <csetjmp>
#include <cstdio>
#include <memory>

#include <jpeglib.h>

#include "edit.h"
#include "jpeg.h"
#include "native.h"
#include "resize.h"

namespace {

constexpr int AROUND = 2;  // pixels around a window that colours are smoothed with
constexpr int LEAST = 16;  // columns decoded: libjpeg does not smooth the colours of a strip of four
// CVE-2020-35538: before 2.0.6, to skip rows whose colours are repeated wrote where it must not.
constexpr bool SKIPS_REPEATED = LIBJPEG_TURBO_VERSION_NUMBER >= 2000006;

struct Error {
    jpeg_error_mgr base;
    jmp_buf jump;
};

void fail(j_common_ptr info) { longjmp(reinterpret_cast<Error *>(info->err)->jump, 1); }

void warn(j_common_ptr info, int level) {
    if (level < 0) fail(info);  // Python decodes the image again, and judges
}

// What a thread uses again for each image; but libjpeg's decoder, which would lend a file the tables of the one before.
struct Decoder {
    jpeg_decompress_struct info;
    Error error;
    std::vector<ShardfeedView> windows;  // of the image that is read, decoded in one go; each has a resizer
    std::vector<Resizer> resizers;
    std::vector<uint8_t> joined, row;
};

Decoder &own() {
    thread_local std::unique_ptr<Decoder> decoder(new Decoder);
    return *decoder;
}

// Whether the header is one that is decoded here, as `read_header` found it.
bool expected(const jpeg_decompress_struct &info, int height, int width) {
    return static_cast<int>(info.image_height) == height && static_cast<int>(info.image_width) == width &&
           info.data_precision == 8 && !info.progressive_mode && !info.arith_code &&
           (info.num_components == 1 ? info.jpeg_color_space == JCS_GRAYSCALE : info.jpeg_color_space == JCS_YCbCr);
}

// The smallest window around all.
ShardfeedView around(const std::vector<ShardfeedView> &windows) {
    ShardfeedView all = windows[0];
    for (const ShardfeedView &one : windows) {
        const int bottom = std::max(all.top + all.height, one.top + one.height);
        const int right = std::max(all.left + all.width, one.left + one.width);
        all.top = std::min(all.top, one.top), all.left = std::min(all.left, one.left);
        all.height = bottom - all.top, all.width = right - all.left;
    }
    return all;
}

// Decode `all` of `data` with a decoder made for it, and resize each window in it by its resizer, which has begun.
bool read_windows(Decoder &decoder, const Bytes &data, int height, int width, const ShardfeedView &all, bool smooth) {
    jpeg_decompress_struct &info = decoder.info;
    jpeg_mem_src(&info, data.data, static_cast<unsigned long>(data.size));
    if (jpeg_read_header(&info, TRUE) != JPEG_HEADER_OK || !expected(info, height, width)) return false;
    info.out_color_space = JCS_RGB;
    info.dct_method = JDCT_ISLOW;
    info.do_fancy_upsampling = smooth;
    info.scale_num = 1, info.scale_denom = all.ratio;
    jpeg_start_decompress(&info);
    const int rows = info.output_height, columns = info.output_width;
    if (all.top < 0 || all.left < 0 || all.height > rows - all.top || all.width > columns - all.left) return false;
    JDIMENSION left = std::max(0, std::min(all.left - AROUND, columns - LEAST));
    JDIMENSION kept = std::min(columns, std::max<int>(all.left + all.width + AROUND, left + LEAST)) - left;
    if (static_cast<int>(kept) < columns) jpeg_crop_scanline(&info, &left, &kept);
    int row = 0;
    if (all.top > AROUND && (smooth || SKIPS_REPEATED)) row = jpeg_skip_scanlines(&info, all.top - AROUND);
    // Never at a multiple of 16: rows that begin there libjpeg-turbo writes past the cache.
    JSAMPROW line = decoder.row.data() + (8 - reinterpret_cast<uintptr_t>(decoder.row.data())) % 16;
    for (bool more = true; more && row < all.top + all.height; row++) {
        if (jpeg_read_scanlines(&info, &line, 1) != 1) return false;
        more = false;
        for (size_t i = 0; i < decoder.windows.size(); i++) {
            const ShardfeedView &one = decoder.windows[i];
            if (row < one.top)
                more = true;
            else if (row < one.top + one.height)
                more |= decoder.resizers[i].feed(line + 3 * (one.left - static_cast<int>(left)));
        }
    }
    // The rest is not decoded, but a marker in it that does not belong there is an error.
    const int marker = info.unread_marker;
    if (marker == JPEG_EOI) return true;
    const bool is_restart = marker >= JPEG_RST0 && marker <= JPEG_RST0 + 7;
    return (!marker || is_restart) && ends_well(data, info.src->next_input_byte - data.data);
}

// libjpeg leaves by longjmp on an error, to here: no function between has an object with a destructor.
bool decode(Decoder &decoder, const Bytes &data, int height, int width, const ShardfeedView &all, bool smooth) {
    int spare = 0;
    for (size_t i = 0; i < decoder.windows.size(); i++) spare = std::max(spare, decoder.resizers[i].spare());
    decoder.row.resize(3 * static_cast<size_t>(width) + 64 + spare);
    decoder.info.mem = nullptr;  // so that it can be destroyed before it is made
    decoder.info.err = jpeg_std_error(&decoder.error.base);
    decoder.error.base.error_exit = fail;
    decoder.error.base.emit_message = warn;
    if (setjmp(decoder.error.jump)) {
        jpeg_destroy_decompress(&decoder.info);
        return false;
    }
    jpeg_create_decompress(&decoder.info);
    const bool well = read_windows(decoder, data, height, width, all, smooth);
    jpeg_destroy_decompress(&decoder.info);
    return well;
}

uint8_t *image_of(const ShardfeedTarget &to, int64_t number) {
    return to.images + 3 * static_cast<int64_t>(to.tall) * to.wide * number;
}

// All views of image `number`: those for which it is made smaller by one ratio are decoded in one go.
bool make(Decoder &decoder, const ShardfeedRecord &record, const ShardfeedView *views, int count,
          const ShardfeedTarget *targets, int64_t number, bool antialias, bool smooth) {
    std::vector<ShardfeedView> &windows = decoder.windows;
    if (decoder.resizers.size() < static_cast<size_t>(count)) decoder.resizers.resize(count);
    for (const int ratio : {1, 2, 4, 8}) {
        windows.clear();
        for (int v = 0; v < count; v++)
            if (views[v].ratio == ratio) windows.push_back(views[v]);
        Part part;
        if (windows.empty()) continue;
        if (!part_for(record, around(windows), decoder.joined, part)) return false;
        for (int v = 0, n = 0; v < count; v++) {
            if (views[v].ratio != ratio) continue;
            ShardfeedView &one = windows[n];
            one.top = one.top / ratio - part.top / ratio, one.left = one.left / ratio - part.left / ratio;
            one.height /= ratio, one.width /= ratio;
            if (one.height < 1 || one.width < 1) return false;
            const ShardfeedTarget &to = targets[v];
            decoder.resizers[n++].begin(one.height, one.width, one.mirrored, to.tall, to.wide, antialias,
                                        image_of(to, number));
        }
        if (!decode(decoder, part.data, part.header.height, part.header.width, around(windows), smooth)) return false;
    }
    for (int v = 0; v < count; v++) {
        const ShardfeedTarget &to = targets[v];
        const int64_t first = to.edits.slots * number;
        edit(image_of(to, number), to.tall, to.wide, 3, to.edits.kinds + first, to.edits.numbers + first * NUMBERS,
             static_cast<int>(to.edits.slots));
    }
    return true;
}

}  // namespace

void shardfeed_make(int32_t count, ShardfeedRecord *records, const ShardfeedView *views, int32_t each,
                    const ShardfeedTarget *targets, int32_t antialias, int32_t smooth, int32_t *next) {
    for (int32_t i; (i = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < count;) {
        ShardfeedRecord &record = records[i];
        if (!record.known) continue;
        try {
            const ShardfeedView *of_record = views + static_cast<int64_t>(each) * i;
            record.made = make(own(), record, of_record, each, targets, i, antialias, smooth);
        } catch (...) {  // memory is short: Python says so, if it is still
            record.made = 0;
        }
    }
}
