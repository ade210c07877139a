// Damage records for shardfeed/native/records.cpp and decode.cpp: fuzz_records SEED SECONDS CORPUS
//
// CORPUS holds Examples, each after its size, uint32. Built with -fsanitize=address,undefined. Each record is decoded
// twice, the second time in a new thread, with a new decoder: if results differ, one image depends on an earlier one.
// Then this writes the record to `missed.record` and ends with 1.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <thread>
#include <vector>

#include "native.h"

using Bytes = std::vector<uint8_t>;

static std::vector<Bytes> read_corpus(const char *path) {
    std::vector<Bytes> records;
    FILE *from = fopen(path, "rb");
    for (uint32_t size; from && fread(&size, 4, 1, from) == 1;) {
        records.emplace_back(size);
        if (fread(records.back().data(), 1, size, from) != size) exit(2);
    }
    if (records.empty()) exit(2);
    return records;
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    std::mt19937_64 draw(strtoull(arguments[1], nullptr, 10));
    time_t end = time(nullptr) + atoi(arguments[2]);
    const std::vector<Bytes> records = read_corpus(arguments[3]);
    long tried = 0, known = 0, made = 0;
    for (; time(nullptr) < end; tried++) {
        Bytes bytes = records[draw() % records.size()];
        bool in_front = draw() % 2;
        for (int changes = draw() % 5; changes; changes--) {
            size_t at = draw() % (in_front ? std::min<size_t>(bytes.size(), 900) : bytes.size());
            switch (draw() % 6) {
            case 0: bytes[at] = draw(); break;
            case 1: bytes[at] ^= 1 << draw() % 8; break;
            case 2: bytes[at] = 0; break;
            case 3: bytes[at] = 0xFF; if (at + 1 < bytes.size()) bytes[at + 1] = 0xC0 + draw() % 64; break;
            // Another marker of a header: a table is missing, or there twice.
            case 4: for (size_t n = at; n + 1 < bytes.size(); n++)
                    if (bytes[n] == 0xFF && bytes[n + 1] >= 0xC4 && bytes[n + 1] <= 0xDD) { bytes[n + 1] = 0xE5; break; }
                break;
            case 5: if (draw() % 4 == 0) bytes.resize(std::max<size_t>(at, 1)); break;
            }
        }
        bytes.shrink_to_fit();  // so that the sanitizer sees each byte that is read after the end
        ShardfeedRecord record{};
        record.payload = bytes.data(), record.size = int64_t(bytes.size());
        shardfeed_find(1, &record, draw() % 4 ? 1 : 0);
        if (!record.known) continue;
        known++;
        Bytes others(record.others);
        others.shrink_to_fit();
        shardfeed_others(1, &record, others.data());
        if (int64_t(record.height) * record.width > 4'000'000) continue;
        ShardfeedView view{};
        view.ratio = 1 << draw() % 4;
        auto part = [&](int side, int32_t &first, int32_t &size) {
            int steps = side / view.ratio;
            if (steps < 1) return false;
            size = 1 + draw() % steps, first = view.ratio * (draw() % (steps - size + 1)), size *= view.ratio;
            return true;
        };
        if (!part(record.height, view.top, view.height) || !part(record.width, view.left, view.width)) continue;
        view.mirrored = draw() % 2;
        int tall = 1 + draw() % 64, wide = 1 + draw() % 64, antialias = draw() % 2;
        Bytes pixels(3 * tall * wide), again(3 * tall * wide);
        ShardfeedRecord copy = record;
        int32_t next = 0, next_again = 0;
        shardfeed_make(1, &record, &view, tall, wide, antialias, pixels.data(), &next);
        std::thread([&] { shardfeed_make(1, &copy, &view, tall, wide, antialias, again.data(), &next_again); }).join();
        made += record.made;
        if (record.made != copy.made || (record.made && pixels != again)) {
            FILE *out = fopen("missed.record", "wb");
            if (out) fwrite(bytes.data(), 1, bytes.size(), out), fclose(out);
            printf("missed: made %d, in a new thread %d, or other pixels\n", record.made, copy.made);
            return 1;
        }
    }
    printf("%ld records: %ld known, %ld made\n", tried, known, made);
    return 0;
}
