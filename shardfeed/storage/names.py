"""Names of objects that a server lists: which of them a local file can have."""

_MOST_BYTES, _MOST_PARTS = 4000, 255  # of a path: Linux takes 4,095 bytes, with the folder that the files are below


def is_usable_name(name: str) -> bool:
    """Whether a file below a folder can be called so: relative, without "..", of bounded length and depth."""
    try:
        length = len(name.encode())
    except UnicodeEncodeError:  # half of a character, from \\ud800 in JSON
        return False
    parts = name.split("/")
    bounded = length <= _MOST_BYTES and len(parts) <= _MOST_PARTS
    return bounded and "\0" not in name and not {"", ".", ".."}.intersection(parts)
