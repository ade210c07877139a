"""Walk through an LMDB database as a process of its own: a damaged page may send the library beyond the file's end,
and that ends the process.

A script: PATH. It exits with 0 where every key and value can be reached; else it says why not, or is killed.
"""

import sys


def main(path: str) -> str:
    """What is wrong with the database; "" for nothing."""
    import lmdb

    environment = lmdb.open(path, subdir=False, readonly=True, lock=False, readahead=False, create=False)
    entries, found = environment.stat()["entries"], 0
    with environment.begin(buffers=True) as transaction:
        for key, value in transaction.cursor():
            found += 1
            if found > entries:
                break
            reached = bytes(key), bytes(value[:1]), bytes(value[-1:])
            del reached
    return "" if found == entries else f"it has {found:,} keys or more, expected {entries:,}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) or None)
