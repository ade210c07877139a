"""CRC-32C, of all at once or piece by piece."""

import google_crc32c

crc32c = google_crc32c.value  # crc32c(b"123456789") == 0xE3069283


extend_crc32c = google_crc32c.extend  # extend_crc32c(crc32c(a), b) == crc32c(a + b)
