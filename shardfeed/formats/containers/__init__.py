"""Formats of other ecosystems: a file that their own programs read, and beside it an index by which we do.

A container holds each record's image as it is; the index says where, and has the rest of the record's payload. So
reading is the same for all of them, needs none of their libraries, and checks a CRC for each record.
"""
