// Damaged JPEGs for shardfeed/native/recode.cpp and compare.cpp, with libjpeg's coefficients as the judge:
//     fuzz_files SEED SECONDS FILE
// FILE holds whole JPEGs, each after its size, uint32. Built with -fsanitize=address,undefined. Ends with 1 and the file
// `missed.jpg` where what the module said is not what libjpeg finds.
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <vector>

#include "native.h"
#include "scan.h"

extern "C" {
#include <jpeglib.h>
}

using Bytes = std::vector<uint8_t>;

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
    bool reads(const Bytes &file) {
        errors.num_warnings = 0;
        if (setjmp(back)) return false;
        jpeg_destroy_decompress(&codec);  // it keeps the tables of its last file
        jpeg_create_decompress(&codec);
        jpeg_mem_src(&codec, const_cast<uint8_t *>(file.data()), file.size());
        jpeg_read_header(&codec, TRUE);
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

static int missed(const char *problem, const Bytes &file) {
    FILE *out = fopen("missed.jpg", "wb");
    if (out) fwrite(file.data(), 1, file.size(), out), fclose(out);
    printf("missed: %s\n", problem);
    return 1;
}

static Bytes with_markers(const Bytes &file, const shardfeed::codes::Scan &scan, int interval, const Bytes &codes) {
    size_t sos = scan.start - 8 - 2 * (scan.image.factors[1] ? 3 : 1);
    Bytes made(file.begin(), file.begin() + sos);
    for (int byte : {0xFF, 0xDD, 0, 4, interval >> 8, interval & 255}) made.push_back(byte);
    made.insert(made.end(), file.begin() + sos, file.begin() + scan.start);
    made.insert(made.end(), codes.begin(), codes.end());
    made.push_back(0xFF), made.push_back(0xD9);
    return made;
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    std::mt19937_64 draw(strtoull(arguments[1], nullptr, 10));
    time_t end = time(nullptr) + atoi(arguments[2]);
    std::vector<Bytes> files;
    FILE *from = fopen(arguments[3], "rb");
    for (uint32_t size; from && fread(&size, 4, 1, from) == 1;) {
        files.emplace_back(size);
        if (fread(files.back().data(), 1, size, from) != size) return 2;
    }
    if (files.empty()) return 2;
    static Judge judge, other;
    long tried = 0, whole = 0, whole_to_both = 0, made_again = 0, same = 0;
    for (; time(nullptr) < end; tried++) {
        Bytes file = files[draw() % files.size()];
        bool in_header = draw() % 2;
        int changes = draw() % 5;
        bool damaged = changes > 0;
        for (; changes; changes--) {
            size_t at = draw() % (in_header ? std::min<size_t>(file.size(), 700) : file.size());
            switch (draw() % 6) {
            case 0: file[at] = draw(); break;
            case 1: file[at] ^= 1 << draw() % 8; break;
            case 2: file[at] = 0; break;
            case 3: file[at] = 0xFF; if (at + 1 < file.size()) file[at + 1] = 0xC0 + draw() % 64; break;
            case 4: file.erase(file.begin() + at, file.begin() + std::min(file.size(), at + 1 + draw() % 8)); break;
            case 5: if (draw() % 4 == 0) file.resize(at); break;
            }
            if (file.empty()) file.push_back(0xFF);
        }
        file.shrink_to_fit();  // so that each byte read behind the end is seen
        shardfeed::codes::Scan scan;
        auto header = shardfeed::codes::read_scan(file.data(), file.size(), scan);
        if (header != shardfeed::codes::Header::unknown && scan.mcus > 40000) continue;
        bool ours = shardfeed_is_whole(file.data(), file.size()), theirs = judge.reads(file);
        whole += ours, whole_to_both += theirs;
        if (ours && !theirs) return missed("is_whole, but libjpeg has a word to say", file);
        int interval = 1 + draw() % 40;
        Bytes codes(draw() % 8 ? 4 * file.size() + 100000 : draw() % file.size());
        codes.shrink_to_fit();
        int64_t written = shardfeed_recode(file.data(), file.size(), interval, nullptr, codes.data(), codes.size());
        if (written < 0) {
            static const Bytes usual = [] {
                Bytes tables{0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
                for (int byte : {0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}) tables.push_back(byte);
                return tables;
            }();
            if (written == SHARDFEED_NO_CODE)
                shardfeed_recode(file.data(), file.size(), interval, usual.data(), codes.data(), codes.size());
            if (ours && !damaged && codes.size() > file.size() && written != SHARDFEED_NO_CODE)
                return missed("a whole file was not recoded", file);
            continue;
        }
        codes.resize(written);
        Bytes made = with_markers(file, scan, interval, codes);
        bool equal = shardfeed_same_codes(file.data(), file.size(), made.data(), made.size());
        if (ours && !damaged && !equal) return missed("recode and same_codes disagree", file);
        if (equal && !(theirs && other.reads(made) && same_coefficients(judge, other))) return missed("same_codes, but libjpeg finds others", file);
        made_again++, same += equal;
        // A change of the copy must be seen, if libjpeg sees it.
        made[draw() % made.size()] ^= 1 << draw() % 8;
        made.shrink_to_fit();
        if (shardfeed_same_codes(file.data(), file.size(), made.data(), made.size()) &&
            !(theirs && other.reads(made) && same_coefficients(judge, other)))
            return missed("same_codes of a changed copy", made);
    }
    printf("%ld files: %ld whole, %ld to libjpeg, %ld recoded, %ld the same\n", tried, whole, whole_to_both, made_again, same);
    return 0;
}
