// From JPEGs in records to a batch's pixels. A thread has one decoder, and reads the rows of a window into its cache,
// from where they are resized at once.
#include <csetjmp>
#include <cstdio>
#include <memory>

#include <jpeglib.h>

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
    Resizer resizer;
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

// Decode a window of `data` with a decoder made for it, and resize it by the resizer, which has begun.
bool read_window(Decoder &decoder, const Bytes &data, int height, int width, const ShardfeedView &window, bool smooth) {
    jpeg_decompress_struct &info = decoder.info;
    jpeg_mem_src(&info, data.data, static_cast<unsigned long>(data.size));
    if (jpeg_read_header(&info, TRUE) != JPEG_HEADER_OK || !expected(info, height, width)) return false;
    info.out_color_space = JCS_RGB;
    info.dct_method = JDCT_ISLOW;
    info.do_fancy_upsampling = smooth;
    info.scale_num = 1, info.scale_denom = window.ratio;
    jpeg_start_decompress(&info);
    const int rows = info.output_height, columns = info.output_width;
    if (window.top < 0 || window.left < 0 || window.height > rows - window.top || window.width > columns - window.left)
        return false;
    JDIMENSION left = std::max(0, std::min(window.left - AROUND, columns - LEAST));
    JDIMENSION kept = std::min(columns, std::max<int>(window.left + window.width + AROUND, left + LEAST)) - left;
    if (static_cast<int>(kept) < columns) jpeg_crop_scanline(&info, &left, &kept);
    int row = 0;
    if (window.top > AROUND && (smooth || SKIPS_REPEATED)) row = jpeg_skip_scanlines(&info, window.top - AROUND);
    // Never at a multiple of 16: rows that begin there libjpeg-turbo writes past the cache.
    JSAMPROW line = decoder.row.data() + (8 - reinterpret_cast<uintptr_t>(decoder.row.data())) % 16;
    for (; row < window.top + window.height; row++) {
        if (jpeg_read_scanlines(&info, &line, 1) != 1) return false;
        if (row >= window.top && !decoder.resizer.feed(line + 3 * (window.left - static_cast<int>(left)))) break;
    }
    // The rest is not decoded, but a marker in it that does not belong there is an error.
    const int marker = info.unread_marker;
    if (marker == JPEG_EOI) return true;
    const bool is_restart = marker >= JPEG_RST0 && marker <= JPEG_RST0 + 7;
    return (!marker || is_restart) && ends_well(data, info.src->next_input_byte - data.data);
}

// libjpeg leaves by longjmp on an error, to here: no function between has an object with a destructor.
bool decode(Decoder &decoder, const Bytes &data, int height, int width, const ShardfeedView &window, bool smooth) {
    decoder.row.resize(3 * static_cast<size_t>(width) + 64 + decoder.resizer.spare());
    decoder.info.mem = nullptr;  // so that it can be destroyed before it is made
    decoder.info.err = jpeg_std_error(&decoder.error.base);
    decoder.error.base.error_exit = fail;
    decoder.error.base.emit_message = warn;
    if (setjmp(decoder.error.jump)) {
        jpeg_destroy_decompress(&decoder.info);
        return false;
    }
    jpeg_create_decompress(&decoder.info);
    const bool well = read_window(decoder, data, height, width, window, smooth);
    jpeg_destroy_decompress(&decoder.info);
    return well;
}

bool make(Decoder &decoder, const ShardfeedRecord &record, ShardfeedView view, int tall, int wide, bool antialias,
          bool smooth, uint8_t *image) {
    Part part;
    if (!part_for(record, view, decoder.joined, part)) return false;
    view.top = view.top / view.ratio - part.top / view.ratio;
    view.left = view.left / view.ratio - part.left / view.ratio;
    view.height /= view.ratio, view.width /= view.ratio;
    if (view.height < 1 || view.width < 1) return false;
    decoder.resizer.begin(view.height, view.width, view.mirrored, tall, wide, antialias, image);
    return decode(decoder, part.data, part.header.height, part.header.width, view, smooth);
}

}  // namespace

void shardfeed_make(int32_t count, ShardfeedRecord *records, const ShardfeedView *views, int32_t tall, int32_t wide,
                    int32_t antialias, int32_t smooth, uint8_t *images, int32_t *next) {
    const int64_t size = 3 * static_cast<int64_t>(tall) * wide;
    for (int32_t i; (i = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < count;) {
        ShardfeedRecord &record = records[i];
        if (!record.known) continue;
        try {
            record.made = make(own(), record, views[i], tall, wide, antialias, smooth, images + size * i);
        } catch (...) {  // memory is short: Python says so, if it is still
            record.made = 0;
        }
    }
}
