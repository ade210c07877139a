"""Formats of other ecosystems: a file that their own programs read, and an index with which shardfeed reads it.

A container holds each record's image unchanged; the index has its location and the rest of the record's payload.
So reading is the same for all formats, needs none of their libraries, and checks a CRC for each record.
"""
