// A damaged record for shardfeed/native/records.cpp, decode.cpp and pack.cpp: decoded twice, the second time in a new
// thread, with a new decoder. If results differ, one image depends on an earlier one.
#include <thread>

#include "edit.h"
#include "fuzz.h"
#include "native.h"

void try_record(const Input &bytes, Draw &draw) {
    ShardfeedRecord record{};
    record.payload = bytes.data(), record.size = int64_t(bytes.size());
    shardfeed_find(1, &record, draw() % 4 ? 1 : 0);
    if (!record.known) return;
    counts.known++;
    Input others(record.others);
    others.shrink_to_fit();
    shardfeed_others(1, &record, others.data());
    if (int64_t(record.height) * record.width > 4'000'000) return;
    ShardfeedView view{};
    view.ratio = 1 << draw() % 4;
    auto part = [&](int side, int32_t &first, int32_t &size) {
        int steps = side / view.ratio;
        if (steps < 1) return false;
        size = 1 + draw() % steps, first = view.ratio * (draw() % (steps - size + 1)), size *= view.ratio;
        return true;
    };
    if (!part(record.height, view.top, view.height) || !part(record.width, view.left, view.width)) return;
    view.mirrored = draw() % 2;
    int tall = 1 + draw() % 64, wide = 1 + draw() % 64, antialias = draw() % 2, smooth = draw() % 2;
    Input pixels(6 * tall * wide), again(6 * tall * wide);
    const ShardfeedView views[] = {view, {0, 0, record.height, record.width, 1 << draw() % 4, !view.mirrored}};
    int32_t kinds[3];
    double numbers[3 * NUMBERS]{};
    for (int32_t &kind : kinds) kind = draw() % 12;
    for (double &number : numbers) number = double(draw() % 4000) / 1000 - 2;
    const ShardfeedEdits edits{kinds, numbers, 3};
    const auto targets = [&](Input &into) {
        const ShardfeedTarget first{into.data(), tall, wide, {}}, second{into.data() + 3 * tall * wide, tall, wide, edits};
        return std::vector<ShardfeedTarget>{first, second};
    };
    const auto to = targets(pixels), to_again = targets(again);
    ShardfeedRecord copy = record;
    int32_t next = 0, next_again = 0;
    shardfeed_make(1, &record, views, 2, to.data(), antialias, smooth, &next);
    std::thread([&] { shardfeed_make(1, &copy, views, 2, to_again.data(), antialias, smooth, &next_again); }).join();
    counts.made += record.made;
    if (record.made != copy.made || (record.made && pixels != again)) missed("made otherwise in a new thread");

    view.ratio = 1;
    int64_t asked = 0, end = 0;
    int32_t places[11], check = draw() % 2;
    shardfeed_pack(1, check, 12, 0, &copy, &view, nullptr, &asked, places);
    Input data(asked);
    shardfeed_pack(1, check, 12, asked, &record, &view, data.data(), &end, places);
    if (end != asked || record.made != copy.made) missed("packed otherwise the second time");
    if (!record.made) return;
    counts.packed++;
    if (places[2] < 0 || places[2] + view.height > places[0] || places[3] < 0 || places[3] + view.width > places[1])
        missed("a view outside of what was packed");
    if (data[end - 2] != 0xFF || data[end - 1] != 0xD9) missed("packed without its end");
}
