#include "jpeg.h"

namespace {

constexpr int MARGIN = 2;  // as in pipelines/decoding/pixels.py, pixels around a window that colours are smoothed with
constexpr double WORTH = 0.9;
constexpr uint8_t DHT = 0xC4, RST0 = 0xD0, EOI = 0xD9, SOS = 0xDA, DQT = 0xDB, DRI = 0xDD, APP0 = 0xE0,
                  APP14 = 0xEE, YCBCR = 1;

int divided_up(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

bool is_frame(uint8_t marker) {
    return marker >= 0xC0 && marker <= 0xCF && marker != DHT && marker != 0xC8 && marker != 0xCC;
}

// The frame's segment, from its marker to before `end`.
bool read_frame(const Bytes &image, int64_t at, int64_t end, Header &header, int &components) {
    components = image[at + 9];
    if (image[at + 1] > 0xC1 || image[at + 4] != 8 || (components != 1 && components != 3)) return false;
    if (end < at + 10 + 3 * components) return false;
    header.height = image.pair(at + 5), header.width = image.pair(at + 7);
    const int factors = image[at + 11];  // of the first component; the others have no more
    if (factors != 0x11 && factors != 0x21 && factors != 0x12 && factors != 0x22) return false;
    if (components == 1) return header.height && header.width;  // its MCUs are blocks, whatever its factors
    if (image[at + 14] != 0x11 || image[at + 17] != 0x11) return false;
    if (image[at + 10] == 'R' && image[at + 13] == 'G' && image[at + 16] == 'B') header.odd_colors = true;
    header.mcu_width = 8 * (factors >> 4), header.mcu_height = 8 * (factors & 15);
    return header.height && header.width;
}

enum class Joined { WELL, NOT_WORTH, WRONG };

}  // namespace

bool read_header(const Bytes &image, Header &header, std::vector<uint8_t> *needed) {
    if (image.pair(0) != 0xFFD8 || image[2] != 0xFF) return false;
    if (needed) needed->assign(image.data, image.data + 2);
    int components = 0;
    for (int64_t at = 2;;) {
        if (!image.has(at, 4) || image[at] != 0xFF) return false;
        const uint8_t marker = image[at + 1];
        if (marker == 0xFF) {
            at++;
            continue;
        }
        const int64_t end = at + 2 + image.pair(at + 2);
        if (marker < 0xC0 || (marker >= RST0 && marker <= EOI) || end < at + 4 || end > image.size) return false;
        if (is_frame(marker)) {
            if (components || !read_frame(image, at, end, header, components)) return false;
            if (needed) header.size_at = static_cast<int64_t>(needed->size()) + 5;
        }
        if (marker == DRI) {
            if (end != at + 6) return false;
            header.interval = image.pair(at + 4);
        }
        const bool is_adobe = marker == APP14 && end >= at + 16 && image.begins(at + 4, "Adobe", 5);
        if (is_adobe && image[at + 15] != YCBCR) header.odd_colors = true;
        const bool kept = is_frame(marker) || marker == DHT || marker == SOS || marker == DQT || marker == DRI ||
                          marker == APP0 || marker == APP14;
        if (needed && kept) needed->insert(needed->end(), image.data + at, image.data + end);
        // No pixel depends on the factors of a single component, but nvJPEG shows others where they are larger.
        if (needed && is_frame(marker) && components == 1) needed->at(header.size_at + 6) = 0x11;
        if (marker == SOS) {
            header.scan = end;
            header.odd_colors &= components == 3;
            return components && image[at + 4] == components;
        }
        at = end;
    }
}

bool ends_well(const Bytes &image, int64_t at) {
    while ((at = image.find(0xFF, at, image.size - 1)) >= 0) {
        const uint8_t code = image[at + 1];
        if (code == EOI) return true;
        if (code && code != 0xFF && (code < RST0 || code > RST0 + 7)) return false;
        at += code == 0xFF ? 1 : 2;
    }
    return false;
}

namespace {

// The pieces that a view needs as a JPEG. NOT_WORTH: take the whole.
Joined join(const Bytes &image, const Bytes &restarts, const ShardfeedView &view, std::vector<uint8_t> &joined, int &top,
            int &left) {
    Header header;
    if (!read_header(image, header, &joined) || !header.interval) return Joined::WRONG;
    const int columns = divided_up(header.width, header.mcu_width), rows = divided_up(header.height, header.mcu_height);
    if (columns % header.interval || restarts.size != 4 * static_cast<int64_t>(rows)) return Joined::WRONG;
    const int pieces = columns / header.interval, piece_width = header.interval * header.mcu_width;
    const int margin = MARGIN * view.ratio;
    const int first_row = std::max(0, view.top - margin) / header.mcu_height;
    const int last_row = std::min(rows, divided_up(view.top + view.height + margin, header.mcu_height));
    const int first = std::max(0, view.left - margin) / piece_width;
    const int last = std::min(pieces, divided_up(view.left + view.width + margin, piece_width));
    if ((last_row - first_row) * (last - first) > WORTH * last_row * pieces) return Joined::NOT_WORTH;

    top = first_row * header.mcu_height, left = first * piece_width;
    const int height = std::min(header.height - top, (last_row - first_row) * header.mcu_height);
    const int width = std::min(header.width - left, (last - first) * piece_width);
    for (int i = 0; i < 4; i++) joined.at(header.size_at + i) = (i < 2 ? height : width) >> (i & 1 ? 0 : 8);

    const auto length = [&](int64_t row) {
        uint32_t value = 0;
        for (int i = 3; i >= 0; i--) value = value << 8 | restarts[4 * row + i];
        return static_cast<int64_t>(value);
    };
    int64_t at = header.scan;
    for (int row = 0; row < first_row; row++) at += length(row);
    int64_t written = 0;
    for (int row = first_row; row < last_row; row++) {
        const int64_t end = at + length(row);
        if (end > image.size) return Joined::WRONG;
        // Every marker of the row is looked at: they tell whether the lengths are those of this image.
        for (int piece = 0; piece < pieces; piece++) {
            int64_t behind = at;
            do behind = image.find(0xFF, behind, end - 1) + 2;
            while (behind > 1 && image[behind - 1] == 0);
            const int64_t number = static_cast<int64_t>(row) * pieces + piece;
            const uint8_t expected = number == static_cast<int64_t>(rows) * pieces - 1 ? EOI : RST0 | (number & 7);
            if (behind <= 1 || image[behind - 1] != expected) return Joined::WRONG;
            if (piece >= first && piece < last) {
                const Bytes part = image.part(at, behind);
                joined.insert(joined.end(), part.data, part.data + part.size);
                joined.back() = RST0 | (written++ & 7);  // its marker, counted from zero again
            }
            at = behind;
        }
        if (at != end) return Joined::WRONG;
    }
    joined.back() = EOI;
    return Joined::WELL;
}

}  // namespace

bool part_for(const ShardfeedRecord &record, const ShardfeedView &view, std::vector<uint8_t> &joined, Part &part) {
    const Bytes payload{record.payload, record.size};
    const Bytes restarts = payload.part(record.restarts, record.restarts + record.restarts_size);
    part.data = payload.part(record.image, record.image + record.image_size);
    const Joined how = restarts.size ? join(part.data, restarts, view, joined, part.top, part.left) : Joined::NOT_WORTH;
    if (how == Joined::WRONG) return false;
    if (how == Joined::WELL) part.data = {joined.data(), static_cast<int64_t>(joined.size())};
    // A file without its end is cut: what of it decodes, and what not, Python says.
    return part.data.pair(part.data.size - 2) == 0xFFD9 && read_header(part.data, part.header, nullptr);
}
