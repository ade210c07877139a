// Bytes of others, read only through checks: nothing outside of them can be reached.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

struct Bytes {
    const uint8_t *data = nullptr;
    int64_t size = 0;

    // 0 outside; a parser checks `has` where that could be mistaken.
    uint8_t operator[](int64_t at) const { return at >= 0 && at < size ? data[at] : 0; }
    int pair(int64_t at) const { return (*this)[at] << 8 | (*this)[at + 1]; }
    bool has(int64_t at, int64_t count) const { return at >= 0 && count >= 0 && at <= size && count <= size - at; }

    // From `at` to before `end`; empty if that is not inside.
    Bytes part(int64_t at, int64_t end) const {
        return has(at, end - at) ? Bytes{data + at, end - at} : Bytes{};
    }
    bool begins(int64_t at, const char *text, int64_t length) const {
        return has(at, length) && !std::memcmp(data + at, text, length);
    }
    // Offset of the first `value` from `at` on, before `end`; -1 without one.
    int64_t find(uint8_t value, int64_t at, int64_t end) const {
        end = std::min(end, size);
        if (at < 0 || at >= end) return -1;
        auto found = static_cast<const uint8_t *>(std::memchr(data + at, value, end - at));
        return found ? found - data : -1;
    }
};
