"""Directories as values, to be compared, of files without content, and unpacked from an archive."""

import os
import tarfile
from pathlib import Path


def tree(path: Path) -> dict[str, bytes]:
    """Every file below a directory, by relative name; a directory ends with a slash."""
    return {
        str(p.relative_to(path)) + "/" * p.is_dir(): b"" if p.is_dir() else p.read_bytes()
        for p in sorted(path.rglob("*"))
    }


def plant(root: Path, *keys: bytes | str) -> Path:
    """Write a file of one byte for each key, and return `root`."""
    for key in map(os.fsencode, keys):
        path = os.path.join(os.fsencode(root), key)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(b"x")
    return root


def extract_all(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack an archive of our own. `extractall(filter=)` would need Python 3.11.4."""
    archive.extraction_filter = lambda member, path: member  # read from 3.11.4 on, and asked for by 3.12 and 3.13
    archive.extractall(folder)
