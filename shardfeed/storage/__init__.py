"""Storage of files: local disks, object stores and web servers."""
