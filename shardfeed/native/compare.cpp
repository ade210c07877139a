// Compare the coefficients of two JPEGs. This shares no code with recode.cpp, and is simpler, so that it finds a mistake
// there. libjpeg reads both headers.
#include <algorithm>
#include <cstring>
#include <memory>

#include "native.h"
#include "scan.h"

namespace shardfeed::codes {
namespace {

constexpr int END = 128;  // more than the coefficients of a block

// A Huffman table. For first coefficients, `find` gives length << 8 | symbol. For others, it gives the bits of the code
// and its value << 8 | the number of coefficients, or END if the block ends.
class Lengths {
  public:
    Lengths(const Codes &codes, bool first) {
        uint32_t next = 0;  // the first 16 bits after all earlier codes
        for (int length = 1, place = 0; length <= 16; length++)
            for (int n = 0; n < codes.counts[length] && place < 256; n++, place++) {
                uint32_t after = next + (1u << (16 - length));
                int symbol = codes.symbols[place], size = symbol & 15, passed = (symbol >> 4) + 1;
                if (!size && passed != 16) passed = END;
                auto entry = uint16_t(first ? length << 8 | symbol : (length + size) << 8 | passed);
                if (length <= QUICK)
                    for (uint32_t bits = next; bits < after && bits < 1 << 16; bits += 1 << (16 - QUICK))
                        quick[bits >> (16 - QUICK)] = entry;
                else
                    end[count] = after, found[count++] = entry;
                next = after;
            }
    }
    // Look up the code at the top of `held`; 0 if there is none.
    uint16_t find(uint64_t held) const {
        if (uint16_t known = quick[held >> (64 - QUICK)]) return known;
        const uint32_t *behind = std::upper_bound(end, end + count, uint32_t(held >> 48));
        return behind == end + count ? 0 : found[behind - end];
    }

  private:
    static constexpr int QUICK = 10;
    uint16_t quick[1 << QUICK] = {};  // for codes of at most QUICK bits
    int count = 0;                    // of longer codes
    uint32_t end[256];                // the first 16 bits after each
    uint16_t found[256];
};

// Image data as bits; the next ones are at the top of `held`.
class Source {
  public:
    const Scan &scan;
    uint64_t held = 0;
    int64_t last[4] = {};  // the first coefficient of each component's last block
    Source(const uint8_t *data, size_t size, const Scan &scan) : scan(scan), at(data + scan.start), end(data + size) {}

    void fill() {  // hold at least 32 bits: a code and its value take 31
        if (count >= 32) return;
        if (end - at >= 4) {
            uint32_t four = uint32_t(at[0]) << 24 | at[1] << 16 | at[2] << 8 | at[3];
            if (!((~four - 0x01010101u) & four & 0x80808080u)) {  // no byte is 0xFF
                held |= uint64_t(four) << (32 - count), count += 32, at += 4;
                return;
            }
        }
        for (; count <= 56; count += 8) {
            bool stuffed = end - at >= 2 && at[0] == 0xFF && !at[1];
            if (end - at < 2 || (at[0] == 0xFF && !stuffed))
                over += 8;
            else
                held |= uint64_t(at[0]) << (56 - count), at += 1 + stuffed;
        }
    }
    void pass(int bits) { held <<= bits, count -= bits; }
    // Skip the marker; false if it is not here, or whole bytes are left before it.
    bool pass_marker(int marker) {
        int left = count - over;
        if (left < 0 || left > 7 || end - at < 2 || at[0] != 0xFF || at[1] != marker) return false;
        at += 2, held = 0, count = over = 0;
        memset(last, 0, sizeof last);
        return true;
    }
    bool begins(int64_t mcu) {
        if (!scan.interval || !mcu || mcu % scan.interval) return true;
        return pass_marker(0xD0 | ((mcu / scan.interval - 1) & 7));
    }
    // Read a difference and add it to the component's first coefficient; false if it is damaged.
    bool add(const Lengths &table, int component) {
        fill();
        int found = table.find(held), length = found >> 8, size = found & 255;
        if (!found || size > 11 || over > count) return false;
        pass(length);
        if (size) {
            int64_t number = int64_t(held >> (64 - size));
            last[component] += held >> 63 ? number : number + 1 - (int64_t(1) << size);
            pass(size);
        }
        return true;
    }

  private:
    const uint8_t *at, *end;
    int count = 0, over = 0;  // bits held, and how many of them are zeros after the end
};

// Compare the other 63 coefficients: the codes are read in `b` to find the end of the block, and their bits compared.
bool have_same_others(Source &a, Source &b, const Lengths &table) {
    Source from = b;
    int all = 0, place = 1;
    while (place < 64) {
        b.fill();
        int found = table.find(b.held), bits = found >> 8;
        if (!found) return false;
        b.pass(bits), all += bits, place += found & 255;
    }
    if (place > 64 && place < END) return false;
    for (int bits; all; all -= bits) {
        a.fill(), from.fill();
        bits = all < 32 ? all : 32;
        if ((a.held ^ from.held) >> (64 - bits)) return false;
        a.pass(bits), from.pass(bits);
    }
    return true;
}

bool have_same_layout(const Scan &a, const Scan &b) {
    return a.mcus == b.mcus && !memcmp(&a.image, &b.image, sizeof a.image) &&
           !memcmp(a.block, b.block, sizeof a.block) && !memcmp(a.others, b.others, sizeof a.others);
}

bool have_same_codes(Source &a, Source &b) {
    std::unique_ptr<Lengths> first_a[4], first_b[4], others[4];
    const Scan &scan = a.scan;
    for (int n = 0; n < scan.blocks; n++) {
        const Block &block = scan.block[n];
        if (!first_a[block.first]) first_a[block.first] = std::make_unique<Lengths>(scan.first[block.first], true);
        if (!first_b[block.first]) first_b[block.first] = std::make_unique<Lengths>(b.scan.first[block.first], true);
        if (!others[block.others]) others[block.others] = std::make_unique<Lengths>(scan.others[block.others], false);
    }
    for (int64_t mcu = 0; mcu < scan.mcus; mcu++) {
        if (!a.begins(mcu) || !b.begins(mcu)) return false;
        for (int n = 0; n < scan.blocks; n++) {
            const Block &block = scan.block[n];
            const int k = block.component;
            if (!a.add(*first_a[block.first], k) || !b.add(*first_b[block.first], k) || a.last[k] != b.last[k]) return false;
            if (!have_same_others(a, b, *others[block.others])) return false;
        }
    }
    return a.pass_marker(0xD9) && b.pass_marker(0xD9);
}

}  // namespace
}  // namespace shardfeed::codes

using namespace shardfeed::codes;

int32_t shardfeed_same_codes(const uint8_t *data, size_t size, const uint8_t *other, size_t other_size) {
    try {
        Scan a{}, b{};  // zeros, so that what they do not use is the same
        if (read_scan(data, size, a) != Header::clean || read_scan(other, other_size, b) != Header::clean) return 0;
        Source from(data, size, a), to(other, other_size, b);
        return have_same_layout(a, b) && have_same_codes(from, to);
    } catch (...) {  // no memory
        return 0;
    }
}
