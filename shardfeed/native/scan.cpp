#include "scan.h"

#include <csetjmp>
#include <cstdio>
#include <cstring>

extern "C" {
#include <jpeglib.h>
}

namespace shardfeed::codes {
namespace {

struct Errors {
    jpeg_error_mgr base;
    jmp_buf back;
};

void fail(j_common_ptr codec) { longjmp(reinterpret_cast<Errors *>(codec->err)->back, 1); }

void count_warnings(j_common_ptr codec, int level) { codec->err->num_warnings += level < 0; }

void copy(const JHUFF_TBL &table, Codes &codes) {
    static_assert(sizeof codes.counts == sizeof table.bits && sizeof codes.symbols == sizeof table.huffval);
    static_assert(sizeof(UINT16) == 2);
    memcpy(codes.counts, table.bits, sizeof codes.counts);
    memcpy(codes.symbols, table.huffval, sizeof codes.symbols);
}

// libjpeg's errors jump out of this function, past any destructor: so no object in it may have one.
bool read(jpeg_decompress_struct &codec, Errors &errors, const uint8_t *data, size_t size, Scan &scan) {
    if (setjmp(errors.back)) return false;
    jpeg_create_decompress(&codec);
    jpeg_mem_src(&codec, const_cast<uint8_t *>(data), size);
    jpeg_read_header(&codec, TRUE);
    scan.start = size - codec.src->bytes_in_buffer;
    bool one_scan = !codec.progressive_mode && !codec.arith_code && codec.comps_in_scan == codec.num_components;
    if (!one_scan || (codec.num_components != 1 && codec.num_components != 3) || codec.data_precision != 8) return false;
    if (codec.Ss != 0 || codec.Se != 63 || codec.Ah != 0 || codec.Al != 0) return false;
    // This checks all tables in use and reads no image data. The smallest scale needs the least memory.
    codec.scale_num = 1, codec.scale_denom = 8;
    jpeg_start_decompress(&codec);
    scan.image = {codec.image_height, codec.image_width, uint32_t(codec.jpeg_color_space), {}, {}};
    for (int n = 0; n < codec.num_components; n++) {
        const jpeg_component_info &component = codec.comp_info[n];
        scan.image.factors[n] = component.h_samp_factor << 8 | component.v_samp_factor;
        memcpy(scan.image.steps[n], component.quant_table->quantval, sizeof scan.image.steps[n]);
    }
    scan.mcus = int64_t(codec.MCUs_per_row) * codec.MCU_rows_in_scan;
    scan.interval = codec.restart_interval;
    scan.blocks = codec.blocks_in_MCU;
    for (int n = 0; n < scan.blocks; n++) {
        const jpeg_component_info &component = *codec.cur_comp_info[codec.MCU_membership[n]];
        int first = component.dc_tbl_no & 3, others = component.ac_tbl_no & 3;  // libjpeg has refused larger ones
        copy(*codec.dc_huff_tbl_ptrs[first], scan.first[first]);
        copy(*codec.ac_huff_tbl_ptrs[others], scan.others[others]);
        scan.block[n] = {uint8_t(component.component_index), uint8_t(first), uint8_t(others)};
    }
    return true;
}

}  // namespace

Header read_scan(const uint8_t *data, size_t size, Scan &scan) {
    // A new decoder for each file: an old one would lend its tables to a damaged file that has none.
    jpeg_decompress_struct codec{};
    Errors errors;
    codec.err = jpeg_std_error(&errors.base);
    errors.base.error_exit = fail;
    errors.base.emit_message = count_warnings;
    bool known = size >= 4 && read(codec, errors, data, size, scan);
    jpeg_destroy_decompress(&codec);
    return !known ? Header::unknown : errors.base.num_warnings > 0 ? Header::odd : Header::clean;
}

}  // namespace shardfeed::codes
