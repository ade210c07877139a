// Edits of an image with any numbers for shardfeed/native/edit.cpp: by the loops of every machine, by those of this one, and
// in a new thread, whose memory is new. All make the same pixels.
#include <cmath>
#include <thread>

#include "edit.h"
#include "fuzz.h"
#include "native.h"

// A number of an edit: as augmentations draw them, at an edge, or any bits.
static double any_number(Draw &draw) {
    static const double edges[]{0, 1, -1, 0.5, 255, 256, -0.0, 1e-300, 1e300, 2147483647, -2147483648.0, HUGE_VAL, -HUGE_VAL, NAN};
    switch (draw() % 4) {
    case 0: return edges[draw() % (sizeof edges / sizeof *edges)];
    case 1: return double(draw() % 100'000) / 1000 - 50;
    case 2: return double(draw() % 4000) / 1000 - 2;
    }
    double any;
    const uint64_t bits = draw();
    memcpy(&any, &bits, sizeof any);
    return any;
}

void try_edit(const Input &bytes, Draw &draw) {
    const int height = 1 + draw() % 40, width = draw() % 3 ? 1 + draw() % 60 : height, channels = draw() % 4 ? 3 : 1;
    const int slots = draw() % 4;
    std::vector<int32_t> kinds(slots);
    std::vector<double> numbers(slots * NUMBERS);
    for (int32_t &kind : kinds) kind = draw() % 32 ? draw() % 11 : static_cast<int32_t>(draw());
    for (double &number : numbers) number = any_number(draw);
    if (draw() % 2)  // a warp by an affine map, a radius of a blur
        for (int slot = 0; slot < slots; slot++) {
            double *its = &numbers[slot * NUMBERS];
            its[6] = its[7] = 0, its[8] = 1, its[1] = double(draw() % 310);
        }
    Input image(static_cast<size_t>(height) * width * channels);  // ends where its memory ends
    for (size_t i = 0; i < image.size(); i++) image[i] = bytes[i % bytes.size()];
    Input plain = image, again = image;
    const auto edit_into = [&](Input &into, bool is_plain) {
        return shardfeed_edit(into.data(), height, width, channels, kinds.data(), numbers.data(), slots, is_plain);
    };
    if (!edit_into(image, false) || !edit_into(plain, true)) missed("no memory for an edit");
    std::thread([&] { edit_into(again, false); }).join();
    if (image != plain) missed("edited otherwise by the plain loops");
    if (image != again) missed("edited otherwise in a new thread");
    counts.edited += slots > 0;
}
