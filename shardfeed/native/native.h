// What Python calls: plain C, no Python objects, no exceptions. Each function may be called from any thread, without the
// interpreter's lock. A change of this file is a new SHARDFEED_INTERFACE, here and in __init__.py.
#pragma once

#include <cstdint>

#define SHARDFEED_INTERFACE 1
#define SHARDFEED_VISIBLE extern "C" __attribute__((visibility("default")))

// SHARDFEED_INTERFACE of what was built.
SHARDFEED_VISIBLE int32_t shardfeed_interface();

// The version of libjpeg-turbo, such as 2001005 for 2.1.5, that this was built against; 0 if what was loaded is another
// library, which cannot be used.
SHARDFEED_VISIBLE int32_t shardfeed_jpeg();
