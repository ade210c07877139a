"""What tells the samples of a dataset from each other, and which split each is of: for records that lie anywhere."""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import permutations

from shardfeed.converters.existing.record_schema import Features
from shardfeed.converters.existing.salvage.placing import Found, Home, best_standings
from shardfeed.converters.existing.salvage.survivors import Remnants
from shardfeed.converters.planning.plan import Lots
from shardfeed.formats.tfrecord.example import decode
from shardfeed.formats.tfrecord.scan import pieces
from shardfeed.schema import FILENAME
from shardfeed.storage.local import storage_error

_MOST_SPLITS = 5  # in any order

FoundIn = Mapping[str, Mapping[int, Sequence[Found]]]  # by split and number of the shard
HomesIn = Mapping[str, Mapping[int, Home]]


class Identities:
    """The digests of what there is once in a dataset: of a sample's name, where a plan made it, else of whole records.

    A plan gives each sample a name of its own in all splits. Where it drew splits, the split follows from the name.
    """

    def __init__(self, remnants: Remnants) -> None:
        self._remnants = remnants
        self._named = remnants.manifest is not None and remnants.planned
        self._lots = _lots(remnants)
        self._draws: dict[int, bytes] = {}
        self._whole: dict[str, set[int]] = {}

    def digest(self, payload: bytes, features: Features) -> int:
        """Of a record in a damaged shard."""
        found, name = self._of(payload, features)
        if name is not None and self._lots:
            self._draws[found] = self._lots[0].draw(name)
        return found

    def note_whole(self, split: str, digests: Iterable[int]) -> None:
        """Records of a shard that is taken for whole."""
        self._whole.setdefault(split, set()).update(digests)

    def read_whole_shards(self) -> None:
        """Learn what lies in undamaged shards. Raises StorageError."""
        agreed = False
        for split, shards in self._remnants.shards.items():
            digests: set[int] = set()
            for shard in shards:
                if not shard.whole or shard.file is None:
                    continue
                path = self._remnants.path(shard.file)
                try:
                    for piece in pieces(path):
                        found, name = self._of(piece.payload)
                        digests.add(found)
                        if name is not None and self._lots:
                            draw = self._lots[0].draw(name)
                            # None may be left: a source may name the splits of some samples, whatever these draw.
                            self._lots = [lots for lots in self._lots if lots.split(draw) == split]
                            agreed = bool(self._lots)
                except OSError as error:
                    raise storage_error(path, "read", error) from error
            self.note_whole(split, digests)
        if not agreed:
            self._lots = []

    def split_of(self, digest: int) -> str | None:
        """The split of a record in a damaged shard; None where nothing tells."""
        draw = self._draws.get(digest)
        splits = {lots.split(draw) for lots in self._lots} if draw is not None else set()
        return splits.pop() if len(splits) == 1 else None

    def taken(self, found: FoundIn, homes: HomesIn) -> dict[str, Collection[int]]:
        """Of each split the digests of records that are not to be looked for in its damaged shards.

        Those of undamaged shards: of all splits where a plan made the dataset, else of this one. And where a plan did,
        those that stand better in a damaged shard of another split.
        """
        if not self._named:
            return {split: self._whole.get(split, frozenset()) for split in found}
        best: dict[int, tuple[tuple[bool, int], str]] = {}
        standings = {split: best_standings(found[split], homes[split]) for split in found}
        for split, of_split in standings.items():
            for digest, standing in of_split.items():
                score = self.split_of(digest) == split, standing
                if digest not in best or score > best[digest][0]:
                    best[digest] = score, split
        everywhere = set().union(*self._whole.values())
        return {
            split: everywhere | {digest for digest in of_split if best[digest][1] != split}
            for split, of_split in standings.items()
        }

    def _of(self, payload: bytes, features: Features | None = None) -> tuple[int, bytes | None]:
        name = None
        if self._named:
            kind, values = (decode(payload, {FILENAME}) if features is None else features).get(FILENAME, (None, ()))
            name = bytes(values[0]) if kind == "bytes" and len(values) == 1 else None
        content, person = (payload, b"payload") if name is None else (name, b"name")
        return int.from_bytes(hashlib.blake2b(content, digest_size=8, person=person).digest(), "little"), name


def _lots(remnants: Remnants) -> list[Lots]:
    """Those that may have said which split a sample is of: the manifest does not say in which order the shares were."""
    options = remnants.manifest.options if remnants.manifest is not None and remnants.planned else {}
    shares, seed = options.get("split"), options.get("seed")
    if not isinstance(shares, dict) or not isinstance(seed, int) or not 1 < len(shares) <= _MOST_SPLITS:
        return []
    if not all(isinstance(share, float | int) for share in shares.values()):
        return []
    return [Lots(seed, dict(order)) for order in permutations(shares.items())]
