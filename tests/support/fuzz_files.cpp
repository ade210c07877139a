// A damaged JPEG for shardfeed/native/recode.cpp and compare.cpp, with libjpeg's coefficients as the judge.
#include <csetjmp>

#include "fuzz.h"
#include "native.h"
#include "scan.h"

extern "C" {
#include <jpeglib.h>
}

struct Judge {
    jpeg_decompress_struct codec;
    jpeg_error_mgr errors;
    jmp_buf back;
    jvirt_barray_ptr *blocks;

    Judge() {
        codec.err = jpeg_std_error(&errors);
        codec.client_data = this;
        errors.error_exit = [](j_common_ptr c) { longjmp(static_cast<Judge *>(c->client_data)->back, 1); };
        errors.emit_message = [](j_common_ptr c, int level) { c->err->num_warnings += level < 0; };
        jpeg_create_decompress(&codec);
    }
    // Whether there is no error and no warning down to the end marker.
    bool reads(const Input &file) {
        errors.num_warnings = 0;
        if (setjmp(back)) return false;
        jpeg_destroy_decompress(&codec);  // it keeps the tables of its last file
        jpeg_create_decompress(&codec);
        jpeg_mem_src(&codec, const_cast<uint8_t *>(file.data()), file.size());
        jpeg_read_header(&codec, TRUE);
        if (int64_t(codec.image_height) * codec.image_width > 50'000'000) return false;  // libFuzzer ends at 2 GB
        blocks = jpeg_read_coefficients(&codec);
        return errors.num_warnings == 0;
    }
};

static bool same_coefficients(Judge &a, Judge &b) {
    if (a.codec.image_height != b.codec.image_height || a.codec.image_width != b.codec.image_width) return false;
    if (a.codec.num_components != b.codec.num_components) return false;
    for (int n = 0; n < a.codec.num_components; n++) {
        const jpeg_component_info &p = a.codec.comp_info[n], &q = b.codec.comp_info[n];
        if (p.width_in_blocks != q.width_in_blocks || p.height_in_blocks != q.height_in_blocks) return false;
        if (memcmp(p.quant_table->quantval, q.quant_table->quantval, sizeof p.quant_table->quantval)) return false;
        for (JDIMENSION y = 0; y < p.height_in_blocks; y++) {
            JBLOCKARRAY rows[2];
            for (Judge *judge : {&a, &b})
                rows[judge == &b] = judge->codec.mem->access_virt_barray(reinterpret_cast<j_common_ptr>(&judge->codec), judge->blocks[n], y, 1, FALSE);
            if (memcmp(rows[0][0], rows[1][0], p.width_in_blocks * sizeof(JBLOCK))) return false;
        }
    }
    return true;
}

static Input with_markers(const Input &file, const shardfeed::codes::Scan &scan, int interval, const Input &codes) {
    size_t sos = scan.start - 8 - 2 * (scan.image.factors[1] ? 3 : 1);
    Input made(file.begin(), file.begin() + sos);
    for (int byte : {0xFF, 0xDD, 0, 4, interval >> 8, interval & 255}) made.push_back(byte);
    made.insert(made.end(), file.begin() + sos, file.begin() + scan.start);
    made.insert(made.end(), codes.begin(), codes.end());
    made.push_back(0xFF), made.push_back(0xD9);
    return made;
}

void try_file(const Input &file, Draw &draw) {
    static Judge judge, other;
    shardfeed::codes::Scan scan;
    auto header = shardfeed::codes::read_scan(file.data(), file.size(), scan);
    if (header != shardfeed::codes::Header::unknown && scan.mcus > 40000) return;
    const bool ours = shardfeed_is_whole(file.data(), file.size()), theirs = judge.reads(file);
    counts.whole += ours, counts.whole_to_both += theirs;
    if (ours && !theirs) missed("is_whole, but libjpeg has a word to say");
    const int interval = 1 + draw() % 40;
    Input codes(draw() % 8 ? 4 * file.size() + 100000 : draw() % file.size());
    int64_t written = shardfeed_recode(file.data(), file.size(), interval, nullptr, codes.data(), codes.size());
    if (written < 0) {
        static const Input usual = [] {
            Input tables{0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
            for (int byte : {0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}) tables.push_back(byte);
            return tables;
        }();
        if (written == SHARDFEED_NO_CODE)
            shardfeed_recode(file.data(), file.size(), interval, usual.data(), codes.data(), codes.size());
        return;
    }
    codes.resize(written);
    Input made = with_markers(file, scan, interval, codes);
    const bool equal = shardfeed_same_codes(file.data(), file.size(), made.data(), made.size());
    if (equal && !(theirs && other.reads(made) && same_coefficients(judge, other))) missed("same_codes, but libjpeg finds others");
    counts.recoded++, counts.same += equal;
    // A change of the copy must be seen, if libjpeg sees it.
    made[draw() % made.size()] ^= 1 << draw() % 8;
    made.shrink_to_fit();
    if (shardfeed_same_codes(file.data(), file.size(), made.data(), made.size()) &&
        !(theirs && other.reads(made) && same_coefficients(judge, other)))
        missed("same_codes of a changed copy");
}
