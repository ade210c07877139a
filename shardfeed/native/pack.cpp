// From JPEGs in records to one buffer of JPEGs, for a decoder that takes a batch: the GPU's.
#include "jpeg.h"
#include "native.h"

namespace {

constexpr int64_t MOST = 64 << 20;  // bytes of pixels, so that the memory of the GPU is bounded

// Find the JPEG that shows a view: `part.data` behind `head`. False if Python must make the image.
bool find(const ShardfeedRecord &record, const ShardfeedView &view, bool check, std::vector<uint8_t> &joined, Part &part,
          Bytes &head) {
    if (!record.known || !part_for(record, view, joined, part) || part.header.odd_colors) return false;
    if (3 * static_cast<int64_t>(part.header.height) * part.header.width > MOST) return false;
    if (check && !shardfeed_is_whole(part.data.data, static_cast<size_t>(part.data.size))) return false;
    if (part.data.data == joined.data()) return true;  // after a look at all markers
    if (!check && !ends_well(part.data, part.header.scan)) return false;
    // Without what no pixel depends on here: TorchCodec turns an image by its Exif orientation.
    read_header(part.data, part.header, &joined);
    head = {joined.data(), static_cast<int64_t>(joined.size())};
    part.data = part.data.part(part.header.scan, part.data.size);
    return true;
}

}  // namespace

void shardfeed_pack(int32_t count, int32_t check, int64_t pixels, int64_t room, ShardfeedRecord *records,
                    const ShardfeedView *views, uint8_t *data, int64_t *ends, int32_t *places) {
    std::vector<uint8_t> joined;
    int64_t end = 0;
    for (int32_t i = 0; i < count; i++, places += 11) {
        Part part;
        Bytes head;
        try {
            records[i].made = find(records[i], views[i], check, joined, part, head);
        } catch (...) {  // memory is short: Python says so, if it is still
            records[i].made = 0;
        }
        const int64_t start = end;
        ends[i] = end += records[i].made ? head.size + part.data.size : pixels;
        if (!records[i].made) continue;
        if (end <= room) {
            if (head.size) std::memcpy(data + start, head.data, head.size);
            std::memcpy(data + start + head.size, part.data.data, part.data.size);
        }
        places[0] = part.header.height, places[1] = part.header.width;
        places[2] = views[i].top - part.top, places[3] = views[i].left - part.left;
    }
}
