// What the fuzz programs for shardfeed/native share: an input is a file or record, then eight bytes that choose what is
// done with it, so that the same input is tried in the same way.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

using Input = std::vector<uint8_t>;
using Draw = std::mt19937_64;

struct Counts {
    long tried, whole, whole_to_both, recoded, same, known, made, packed, edited;
};
extern Counts counts;

// `bytes` ends where its memory ends, so that the sanitizer sees each byte that is read behind it.
void try_file(const Input &bytes, Draw &draw);
void try_record(const Input &bytes, Draw &draw);
// The pixels are those of the input, whatever it is.
void try_edit(const Input &bytes, Draw &draw);

// Each leaves with a finding by `abort`; libFuzzer writes the input to a file, and so does `main`.
[[noreturn]] inline void missed(const char *problem) {
    fprintf(stderr, "missed: %s\n", problem);
    abort();
}
