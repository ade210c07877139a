// Insert restart markers into the image data of a JPEG, or check that all its Huffman codes can be read.
//
// In a block, only the first coefficient depends on other blocks: it is coded as the difference from the previous one,
// and after a restart marker from zero (ITU-T T.81, F.1.2.1). So its code is computed again, and the bits of the other
// 63 are copied.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "native.h"
#include "scan.h"

namespace shardfeed::codes {
namespace {

constexpr int LOOK = 12;         // bits that one lookup decodes; longer codes, which are rare, are searched by length
constexpr int MOST = 11;         // bits of the difference between two first coefficients (T.81, table F.1)
constexpr size_t A_BLOCK = 640;  // bytes that a block and a marker take at most: 31 + 27 + 63 x 31 bits, each byte 0xFF

constexpr bool SWAPS = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
inline uint64_t big_endian(uint64_t word) { return SWAPS ? __builtin_bswap64(word) : word; }
inline uint32_t big_endian(uint32_t word) { return SWAPS ? __builtin_bswap32(word) : word; }

struct Table {
    Codes codes;
    uint16_t one[1 << LOOK];  // by the next bits, the first code: length << 8 | symbol; 0: it is longer than LOOK
    // By the next bits, all codes that lie in them with their values: how many bits these take, plus 16 if the last one
    // ends the block, plus 256 for each coefficient. 0: not even the first code does.
    uint16_t many[1 << LOOK];
    int32_t longest[17], offset[17];  // by length the largest code (-1: none), and the place of its symbol minus the code
    uint16_t code[MOST + 1];          // by symbol, to write with
    uint8_t length[MOST + 1];         // 0: there is none

    explicit Table(const Codes &from) : codes(from), one{}, many{}, offset{}, code{}, length{} {
        for (int bits = 1, next = 0, place = 0; bits <= 16; bits++, next <<= 1) {
            longest[bits] = -1;
            // libjpeg has refused tables in use that have more codes than fit.
            for (int n = 0; n < codes.counts[bits] && place < 256 && next < 1 << bits; n++, next++, place++) {
                int symbol = codes.symbols[place];
                if (symbol <= MOST) code[symbol] = next, length[symbol] = bits;
                longest[bits] = next, offset[bits] = place - next;
                if (bits <= LOOK)
                    for (int rest = 0; rest < 1 << (LOOK - bits); rest++)
                        one[(next << (LOOK - bits)) | rest] = bits << 8 | symbol;
            }
        }
        for (int ahead = 0; ahead < 1 << LOOK; ahead++) many[ahead] = whole_codes(ahead);
    }

    uint16_t whole_codes(int ahead) const {
        int bits = 0, passed = 0;
        for (;;) {
            int found = one[(ahead << bits) & ((1 << LOOK) - 1)], symbol = found & 255;
            int after = bits + (found >> 8) + (symbol & 15);
            if (!found || after > LOOK) break;  // its end was not among the bits
            if (!(symbol & 15) && symbol != 0xF0) return passed << 8 | 16 | after;
            if (symbol == 0xF0 || passed + (symbol >> 4) + 1 > 63) break;
            bits = after, passed += (symbol >> 4) + 1;
        }
        return passed << 8 | bits;
    }

    // Symbol of the code at the top of `ahead`, which has so many bits; -1: there is no such code.
    int symbol(uint64_t ahead, int &bits) const {
        int found = one[ahead >> (64 - LOOK)];
        bits = found >> 8;
        if (found) return found & 255;
        for (bits = LOOK + 1; bits <= 16; bits++) {
            int code = int(ahead >> (64 - bits));
            if (code <= longest[bits]) return codes.symbols[(code + offset[bits]) & 255];
        }
        return -1;
    }
};

// Tables are kept per thread and place, since most files have the same ones.
const Table &table_of(const Codes &codes, int place) {
    thread_local std::unique_ptr<Table> kept[10];
    auto &table = kept[place];
    if (!table || memcmp(&table->codes, &codes, sizeof codes)) table = std::make_unique<Table>(codes);
    return *table;
}

// Image data as bits, without the zeros that follow each 0xFF. After its end come zeros.
class Bits {
  public:
    Bits(const uint8_t *data, size_t size, size_t at = 0) : data(data), size(size), at(at) {}
    uint64_t ahead() const {  // at least 57 bits, the first one on top
        size_t byte = at >> 3;
        uint64_t word = 0;
        if (byte + 8 <= size)
            memcpy(&word, data + byte, 8), word = big_endian(word);
        else
            for (size_t n = byte; n < byte + 8; n++) word = word << 8 | (n < size ? data[n] : 0);
        return word << (at & 7);
    }
    void pass(size_t bits) { at += bits; }
    size_t passed() const { return at; }
    bool is_over() const { return at > 8 * size; }
    bool ends_here() const { return !is_over() && 8 * size - at < 8; }
    Bits from(size_t bit) const { return Bits(data, size, bit); }

  private:
    const uint8_t *data;
    size_t size, at;
};

// Writes bits, with a zero after each 0xFF. Call `has_room` before each block and marker.
class Writer {
  public:
    Writer(uint8_t *out, size_t room) : begin(out), at(out), end(out + room) {}
    bool has_room() const { return size_t(end - at) >= A_BLOCK; }
    size_t written() const { return at - begin; }
    void put(uint64_t value, int bits) {  // at most 32
        held = held << bits | value, count += bits;
        if (count < 32) return;
        count -= 32;
        uint32_t word = uint32_t(held >> count);
        if ((word & ~(word + 0x01010101u)) & 0x80808080u) {  // a byte may be 0xFF
            for (int shift = 24; shift >= 0; shift -= 8) put_byte(word >> shift);
        } else {
            word = big_endian(word);
            memcpy(at, &word, 4);
            at += 4;
        }
    }
    void put_marker(int number) {
        fill();
        *at++ = 0xFF, *at++ = 0xD0 | (number & 7);
    }
    void fill() {  // pad the last byte with ones
        int spare = -count & 7;
        held = held << spare | ((1u << spare) - 1), count += spare;
        while (count) count -= 8, put_byte(held >> count);
    }

  private:
    void put_byte(uint8_t byte) {
        *at++ = byte;
        if (byte == 0xFF) *at++ = 0;
    }
    uint8_t *begin, *at, *end;
    uint64_t held = 0;
    int count = 0;
};

struct Coder {
    const Scan &scan;
    const Table *first[4], *others[4], *written[4];  // written: for first coefficients in the new file

    Coder(const Scan &scan, const Codes *usual) : scan(scan) {
        for (int n = 0; n < scan.blocks; n++) {
            int a = scan.block[n].first, b = scan.block[n].others;
            first[a] = &table_of(scan.first[a], a), others[b] = &table_of(scan.others[b], 4 + b);
            written[a] = usual ? &table_of(usual[a & 1], 8 + (a & 1)) : first[a];
        }
    }
};

// Read the 63 codes behind the first one of a block; false if they are damaged.
inline bool pass_others(Bits &bits, const Table &table) {
    for (int place = 1; place < 64;) {
        uint64_t ahead = bits.ahead();
        for (int have = 57; have >= 31;) {
            unsigned many = table.many[ahead >> (64 - LOOK)], length = many & 15, passed = many >> 8;
            bool ends = many & 16;
            if (length && place + passed + ends <= 64) {
                bits.pass(length), place += passed;
                if (ends || place == 64) return true;
            } else {  // one code: a long one, one with a large value, or the last of the block
                int bits_of_code, symbol = table.symbol(ahead, bits_of_code);
                if (symbol < 0) return false;
                length = bits_of_code + (symbol & 15);
                bits.pass(length);
                if (!(symbol & 15) && symbol != 0xF0) return true;
                place += (symbol >> 4) + 1;
                if (place > 64 && symbol != 0xF0) return false;
                if (place >= 64) return true;
            }
            ahead <<= length, have -= length;
        }
    }
    return true;
}

// Read the MCUs from `from` up to `to`, without a marker in between; with WRITE, write them with one every `interval`.
// Returns 0, or a result of native.h.
template <bool WRITE>
int64_t pass_mcus(Bits bits, const Coder &coder, int64_t from, int64_t to, int64_t interval, int64_t *predicted,
                  Writer &out) {
    int64_t last[4] = {};
    for (int64_t mcu = from; mcu < to; mcu++) {
        if (WRITE && mcu && mcu % interval == 0) {
            if (!out.has_room()) return SHARDFEED_NO_ROOM;
            out.put_marker(int(mcu / interval - 1));
            memset(predicted, 0, sizeof last);
        }
        for (int n = 0; n < coder.scan.blocks; n++) {
            const Block &block = coder.scan.block[n];
            if (bits.is_over()) return SHARDFEED_DAMAGED;
            if (WRITE && !out.has_room()) return SHARDFEED_NO_ROOM;
            uint64_t ahead = bits.ahead();
            int length, size = coder.first[block.first]->symbol(ahead, length);
            if (size < 0 || size > MOST) return SHARDFEED_DAMAGED;
            bits.pass(length + size);
            if (WRITE) {
                int k = block.component;
                if (size) {
                    int64_t number = (ahead << length) >> (64 - size);
                    last[k] += number >> (size - 1) ? number : number - (1 << size) + 1;
                }
                int64_t difference = last[k] - predicted[k];
                predicted[k] = last[k];
                if (std::llabs(difference) >= 1 << MOST) return SHARDFEED_DAMAGED;
                size = difference ? 32 - __builtin_clz(unsigned(std::llabs(difference))) : 0;
                const Table &table = *coder.written[block.first];
                if (!table.length[size]) return SHARDFEED_NO_CODE;
                if (difference < 0) difference += (1 << size) - 1;
                out.put(uint64_t(table.code[size]) << size | uint64_t(difference), table.length[size] + size);
            }
            size_t begin = bits.passed();
            if (!pass_others(bits, *coder.others[block.others])) return SHARDFEED_DAMAGED;
            if (WRITE) {
                Bits source = bits.from(begin);
                for (size_t left = bits.passed() - begin; left;) {
                    int count = left < 32 ? int(left) : 32;
                    out.put(source.ahead() >> (64 - count), count);
                    source.pass(count), left -= count;
                }
            }
        }
    }
    return bits.ends_here() ? 0 : SHARDFEED_DAMAGED;
}

// Image data between two markers, without the zeros behind 0xFF.
class Stretches {
  public:
    Stretches(const uint8_t *at, const uint8_t *end) : at(at), end(end), bytes(new uint8_t[end - at]) {}
    // Go to the next part; the marker after it, or -1 if there is none.
    int next() {
        size = 0;
        while (end - at > 1) {
            auto *found = static_cast<const uint8_t *>(memchr(at, 0xFF, end - at - 1));
            if (!found) break;
            size_t count = found - at + (found[1] == 0);
            memcpy(&bytes[size], at, count);
            size += count, at = found + 2;
            if (found[1]) return found[1];
        }
        return -1;
    }
    Bits bits() const { return Bits(bytes.get(), size); }

  private:
    const uint8_t *at, *end;
    std::unique_ptr<uint8_t[]> bytes;
    size_t size = 0;
};

template <bool WRITE>
int64_t pass_scan(const uint8_t *data, size_t size, const Coder &coder, int64_t interval, Writer &out) {
    int64_t predicted[4] = {};
    const Scan &scan = coder.scan;
    Stretches stretches(data + scan.start, data + size);
    for (int64_t mcu = 0, number = 0; mcu < scan.mcus; number++) {
        int64_t to = scan.interval ? std::min(mcu + scan.interval, scan.mcus) : scan.mcus;
        if (stretches.next() != (to == scan.mcus ? 0xD9 : int(0xD0 | (number & 7)))) return SHARDFEED_MARKER;
        int64_t problem = pass_mcus<WRITE>(stretches.bits(), coder, mcu, to, interval, predicted, out);
        if (problem) return problem;
        mcu = to;
    }
    if (WRITE) out.fill();
    return 0;
}

// Decoders have warnings about other samplings, even if every code is there.
bool has_usual_factors(const uint32_t *factors) {
    bool first = false;
    for (uint32_t usual : {0x101, 0x201, 0x102, 0x202, 0x401}) first = first || factors[0] == usual;
    return !factors[1] || (first && factors[1] == 0x101 && factors[2] == 0x101);
}

}  // namespace
}  // namespace shardfeed::codes

using namespace shardfeed::codes;

int64_t shardfeed_recode(const uint8_t *data, size_t size, int64_t interval, const uint8_t *usual, uint8_t *out,
                         size_t room) {
    try {
        Scan scan;
        if (interval < 1 || read_scan(data, size, scan) == Header::unknown) return SHARDFEED_UNKNOWN;
        Codes written[2] = {};
        for (int n = 0; usual && n < 2; n++, usual += 28) {
            memcpy(written[n].counts + 1, usual, 16);
            memcpy(written[n].symbols, usual + 16, 12);
        }
        Writer writer(out, room);
        int64_t problem = pass_scan<true>(data, size, Coder(scan, usual ? written : nullptr), interval, writer);
        return problem ? problem : int64_t(writer.written());
    } catch (...) {  // no memory
        return SHARDFEED_NO_ROOM;
    }
}

int32_t shardfeed_is_whole(const uint8_t *data, size_t size) {
    try {
        Scan scan;
        Writer none(nullptr, 0);
        if (read_scan(data, size, scan) != Header::clean || !has_usual_factors(scan.image.factors)) return 0;
        return !pass_scan<false>(data, size, Coder(scan, nullptr), 1, none);
    } catch (...) {
        return 0;
    }
}
