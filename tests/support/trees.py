"""Directories as values, to be compared."""

from pathlib import Path


def tree(path: Path) -> dict[str, bytes]:
    """Every file below a directory, by relative name; a directory ends with a slash."""
    return {
        str(p.relative_to(path)) + "/" * p.is_dir(): b"" if p.is_dir() else p.read_bytes()
        for p in sorted(path.rglob("*"))
    }
