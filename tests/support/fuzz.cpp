// Damaged JPEGs and records, and edits of images, for shardfeed/native, built with -fsanitize=address,undefined:
//     fuzz SEED SECONDS FOLDER
// FOLDER holds inputs, a file each. Built with clang's -fsanitize=fuzzer and -DLIBFUZZER, libFuzzer chooses what to try,
// by the code that an input reaches, and has the options.
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz.h"

Counts counts;
constexpr size_t CHOICES = 8;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size <= CHOICES) return 0;
    uint64_t seed;
    memcpy(&seed, data + size - CHOICES, CHOICES);
    Draw draw(seed);
    const Input bytes(data, data + size - CHOICES);
    counts.tried++;
    (bytes[0] == 0xFF ? try_file : try_record)(bytes, draw);
    try_edit(bytes, draw);
    return 0;
}

// Change a byte, a bit, a marker or a length.
static void damage(Input &bytes, Draw &draw) {
    const size_t end = bytes.size() - CHOICES, at = draw() % (draw() % 2 ? std::min<size_t>(end, 900) : end);
    switch (draw() % 7) {
    case 0: bytes[at] = draw(); break;
    case 1: bytes[at] ^= 1 << draw() % 8; break;
    case 2: bytes[at] = 0; break;
    case 3: bytes[at] = 0xFF, bytes[at + 1] = 0xC0 + draw() % 64; break;
    case 4: // another marker of a header: a table is missing, or there twice
        for (size_t n = at; n + 1 < end; n++)
            if (bytes[n] == 0xFF && bytes[n + 1] >= 0xC4 && bytes[n + 1] <= 0xDD) { bytes[n + 1] = 0xE5; break; }
        break;
    case 5: bytes.erase(bytes.begin() + at, bytes.begin() + std::min(end, at + 1 + draw() % 8)); break;
    case 6: if (draw() % 4 == 0) bytes.erase(bytes.begin() + at, bytes.begin() + end); break;
    }
    if (bytes.size() <= CHOICES) bytes.insert(bytes.begin(), 0xFF);
}

static void choose(Input &bytes, Draw &draw) {
    const uint64_t seed = draw();
    memcpy(bytes.data() + bytes.size() - CHOICES, &seed, CHOICES);
}

#ifdef LIBFUZZER
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    Draw draw(seed);
    if (size <= CHOICES || draw() % 2) return LLVMFuzzerMutate(data, size, room);
    Input bytes(data, data + size);
    for (int changes = draw() % 3; changes >= 0; changes--) damage(bytes, draw);
    if (draw() % 2) choose(bytes, draw);
    const size_t made = std::min(bytes.size(), room);
    memcpy(data, bytes.data(), made);
    return made;
}
#else
static Input tried;

static void keep(int) {
    std::ofstream("missed", std::ios::binary).write(reinterpret_cast<char *>(tried.data()), tried.size());
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    Draw draw(strtoull(arguments[1], nullptr, 10));
    const time_t end = time(nullptr) + atoi(arguments[2]);
    std::vector<Input> corpus;
    for (const auto &entry : std::filesystem::directory_iterator(arguments[3])) {
        std::ifstream file(entry.path(), std::ios::binary);
        corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    std::sort(corpus.begin(), corpus.end());
    signal(SIGABRT, keep);
    while (time(nullptr) < end) {
        tried = corpus.at(draw() % corpus.size());
        for (int changes = draw() % 5; changes; changes--) damage(tried, draw);
        choose(tried, draw);
        LLVMFuzzerTestOneInput(tried.data(), tried.size());
    }
    printf("%ld tried: of files %ld whole, %ld to libjpeg, %ld recoded, %ld the same; of records %ld known, %ld made, %ld packed; %ld edited\n",
           counts.tried, counts.whole, counts.whole_to_both, counts.recoded, counts.same, counts.known, counts.made,
           counts.packed, counts.edited);
    return 0;
}
#endif
