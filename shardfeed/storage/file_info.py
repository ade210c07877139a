"""What is written down of a file, so that any change to it is noticed."""

from dataclasses import dataclass

from shardfeed.storage.checksum import crc32c
from shardfeed.storage.local import storage_error
from shardfeed.storage.local_reading import LOCAL, file_checksum
from shardfeed.storage.storage import Storage


@dataclass(frozen=True)
class FileInfo:
    """A file as it was written: `size` in bytes, CRC-32C of all of it."""

    size: int
    crc32c: int

    @classmethod
    def of(cls, content: bytes) -> "FileInfo":
        """Of a file that holds `content`."""
        return cls(len(content), crc32c(content))

    @classmethod
    def of_file(cls, path: str, storage: Storage = LOCAL) -> "FileInfo":
        """Of the file at `path` as it is now. Raises StorageError where it cannot be read."""
        try:
            return cls(*file_checksum(path, storage))
        except OSError as error:
            raise storage_error(path, "read", error) from error

    def difference(self, found: "FileInfo") -> str:
        """What is wrong with a file that was to be this one; "" where nothing is."""
        if found.size != self.size:
            return f"has {found.size} bytes, expected {self.size}"
        return "" if found == self else f"its CRC-32C is {found.crc32c:08x}, expected {self.crc32c:08x}"
