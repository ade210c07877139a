"""The keys of all samples that were met, 12 bytes each, to tell whether one comes again."""

import os
from array import array
from hashlib import blake2b
from itertools import islice

import numpy as np

from shardfeed.converters.sources.containers.options import naming
from shardfeed.converters.sources.containers.packed.compact import as_array
from shardfeed.converters.sources.containers.webdataset.samples import PassedOver, samples
from shardfeed.converters.sources.files.source_files import SourceFiles
from shardfeed.errors import UsageError, escape


class MetKeys:
    """Hashes of keys, and the tar that each is in. `by_tar`: whether a key may come again in another tar."""

    def __init__(self, files: SourceFiles, *, by_tar: bool) -> None:
        self._files, self._by_tar = files, by_tar
        self._met, self._met_in = array("Q"), array("i")

    def __len__(self) -> int:
        return len(self._met)

    def add(self, key: bytes, tar: int) -> None:
        """One more, of the tar of that number."""
        own = self._files.names[tar].encode("utf-8", "surrogateescape") + b"\0" + key if self._by_tar else key
        self._met.append(int.from_bytes(blake2b(own, digest_size=8).digest(), "little"))
        self._met_in.append(tar)

    def check_unique(self) -> None:
        """Raises UsageError where a key comes again: torn apart in a tar, or in two tars."""
        hashes = as_array(self._met)
        order = np.argsort(hashes, kind="stable")
        again = order[1:][hashes[order[1:]] == hashes[order[:-1]]]
        if not len(again):
            return
        later = int(again.min())
        earlier = int(np.argmax(hashes == hashes[later]))
        one, other = self._met_in[earlier], self._met_in[later]
        first, second = (self._files.names[i] for i in (one, other))
        key = escape(self._key_of(later))
        place = os.fsdecode(self._files.files[other].path)
        if one == other:
            problem = f"the sample '{key}' is torn apart: its files are not behind each other"
            problem += f" ({len(again):,} such samples)" if len(again) > 1 else ""
            raise UsageError(place, problem, "write the tar in the order of names: `tar --sort=name -cf OUT DIR`")
        problem = f"the key '{key}' is in {escape(first)} and in {escape(second)} ({len(again):,} keys come again)"
        remedy = f"where each tar counts anew give {naming('key', '__url__')}: the tar's name before each"
        raise UsageError(place, problem, remedy)

    def _key_of(self, met: int) -> bytes:
        """The key of the sample that was met as so many'th; its tar is read again."""
        index = self._met_in[met]
        place = met - int(np.argmax(np.array(self._met_in) == index))
        file = self._files.files[index]
        with open(file.path, "rb") as tar:
            return next(islice(samples(tar, os.fsdecode(file.path), PassedOver()), place, None)).key
