// What was built, for a check when it is loaded.
#include "native.h"

#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>

namespace {

struct Error {
    jpeg_error_mgr base;
    jmp_buf jump;
};

void fail(j_common_ptr info) { longjmp(reinterpret_cast<Error *>(info->err)->jump, 1); }

}  // namespace

int32_t shardfeed_interface() { return SHARDFEED_INTERFACE; }

int32_t shardfeed_jpeg() {
    jpeg_decompress_struct info;
    Error error;
    info.err = jpeg_std_error(&error.base);
    error.base.error_exit = fail;
    if (setjmp(error.jump)) return 0;  // another version, or another layout of its structures
    jpeg_create_decompress(&info);
    jpeg_destroy_decompress(&info);
    return LIBJPEG_TURBO_VERSION_NUMBER;
}
