// The walk over an Example: where its image is, and what is left without it. Only the canonical form is known, which the
// conversion writes: one message, each entry a key and a value. shardfeed/formats/example.py knows all others.
#include "bytes.h"
#include "jpeg.h"
#include "native.h"

namespace {

// The length at `at`, which is moved behind it; -1 if it does not end inside.
int64_t length_at(const Bytes &bytes, int64_t &at) {
    uint64_t value = 0;
    for (int shift = 0; shift < 35 && bytes.has(at, 1); shift += 7) {
        uint8_t byte = bytes[at++];
        value |= static_cast<uint64_t>(byte & 0x7F) << shift;
        if (byte < 0x80) return static_cast<int64_t>(value);
    }
    return -1;
}

int length_size(int64_t value) { return value < 0x80 ? 1 : 1 + length_size(value >> 7); }

// Whether a field with this tag begins at `at` and ends at `end`; `at` is moved to its content.
bool fills(const Bytes &bytes, uint8_t tag, int64_t &at, int64_t end) {
    if (at >= end || bytes[at] != tag) return false;
    int64_t size = length_at(bytes, ++at);
    return size >= 0 && at + size == end;
}

struct Wanted {
    const char *entry;  // the field of the key, as it stands in the map's entry
    int64_t length;
};
constexpr Wanted IMAGE{"\x0a\x0dimage/encoded", 15}, RESTARTS{"\x0a\x0eimage/restarts", 16};

bool walk(ShardfeedRecord &record, bool seekable) {
    Bytes bytes{record.payload, record.size};
    int64_t at = 0, end = bytes.size, cut = 0;
    if (!fills(bytes, 0x0A, at, end)) return false;
    const int64_t features = end - at;
    int64_t removed = 0;
    bool image = false, restarts = false;
    while (at < end) {
        const int64_t entry = at;
        if (bytes[at++] != 0x0A) return false;
        const int64_t size = length_at(bytes, at);
        const int64_t start = at, behind = at + size;
        if (size < 4 || behind > end || bytes[start] != 0x0A || bytes[start + 1] >= 0x80) return false;
        const bool is_image = bytes.begins(start, IMAGE.entry, IMAGE.length);
        if (is_image || (seekable && bytes.begins(start, RESTARTS.entry, RESTARTS.length))) {
            bool &seen = is_image ? image : restarts;
            if (seen) return false;
            seen = true;
            int64_t value = start + (is_image ? IMAGE : RESTARTS).length;
            for (uint8_t tag : {0x12, 0x0A, 0x0A})  // Feature, BytesList and the value, each filling the one before
                if (!fills(bytes, tag, value, behind)) return false;
            (is_image ? record.image : record.restarts) = value;
            (is_image ? record.image_size : record.restarts_size) = behind - value;
            record.cuts[cut++] = entry;
            record.cuts[cut++] = behind;
            removed += behind - entry;
        }
        at = behind;
    }
    const int64_t left = features - removed;
    record.others = 1 + length_size(left) + left;
    return image && restarts == seekable;
}

uint8_t *copied(const Bytes &from, uint8_t *to) {
    if (from.size) std::memcpy(to, from.data, from.size);
    return to + from.size;
}

}  // namespace

void shardfeed_find(int32_t count, ShardfeedRecord *records, int32_t seekable) {
    for (int32_t i = 0; i < count; i++) {
        ShardfeedRecord &record = records[i];
        record = {record.payload, record.size, 0, 0, 0, 0, {}, 0, 0, 0, 0, 0};
        Header header;
        record.known = walk(record, seekable) &&
                       read_header({record.payload + record.image, record.image_size}, header, nullptr);
        record.height = header.height, record.width = header.width;
    }
}

void shardfeed_others(int32_t count, const ShardfeedRecord *records, uint8_t *others) {
    for (int32_t i = 0; i < count; i++) {
        const ShardfeedRecord &record = records[i];
        if (!record.known) continue;
        Bytes bytes{record.payload, record.size};
        int64_t at = 1;
        int64_t left = length_at(bytes, at);
        left -= record.cuts[1] - record.cuts[0] + record.cuts[3] - record.cuts[2];
        *others++ = 0x0A;
        for (; left >= 0x80; left >>= 7) *others++ = static_cast<uint8_t>((left & 0x7F) | 0x80);
        *others++ = static_cast<uint8_t>(left);
        others = copied(bytes.part(at, record.cuts[0]), others);
        if (record.cuts[3]) others = copied(bytes.part(record.cuts[1], record.cuts[2]), others);
        others = copied(bytes.part(record.cuts[record.cuts[3] ? 3 : 1], bytes.size), others);
    }
}
