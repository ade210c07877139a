"""Sources of batches: a split, or several splits mixed by weight."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from shardfeed.annotations import KEYPOINT_X, RASTER
from shardfeed.declared import Natural, Step, checked
from shardfeed.errors import UsageError, escape
from shardfeed.formats.example import decode
from shardfeed.readers.split import Split
from shardfeed.schema import FILENAME, FORMAT, PNG16, Schema

_PLACE_BITS = 40  # bits of a place within its part; the part's number is above them


@dataclass(frozen=True)
class Mixture:
    """Several splits as one: the samples of `parts` one after the other, each drawn by its weight. Made by `mix`.

    `phases`: from which step of the run on, the weights of the first parts; the others do not take part yet.
    """

    parts: tuple[Split, ...]
    phases: tuple[tuple[int, tuple[float, ...]], ...]
    name: str = field(default="mixture", init=False)

    @property
    def schema(self) -> Schema:
        """The features that all parts share."""
        first, *others = (part.schema for part in self.parts)
        features = {
            key: feature
            for key, feature in first.features.items()
            if all(other.features.get(key) == feature for other in others)
        }
        names = {key: names for key, names in first.class_names.items() if key in features}
        # Numbers have the same meaning in all parts, or `mix` refuses them; their ids in the sources may differ.
        ids = {
            key: ids
            for key, ids in first.class_ids.items()
            if key in features and all(other.class_ids.get(key) == ids for other in others)
        }
        keypoints = first.keypoints if KEYPOINT_X in features else None
        raster = first.raster if RASTER in features else None
        return Schema(features, names, ids, keypoints, raster)

    @property
    def formats(self) -> Mapping[str, int]:
        """`image/format` -> records of all parts; empty if unknown for one."""
        if not all(part.formats for part in self.parts):
            return {}
        kinds = sorted({kind for part in self.parts for kind in part.formats})
        return {kind: sum(part.formats.get(kind, 0) for part in self.parts) for kind in kinds}

    @property
    def record_bytes(self) -> int:
        return sum(part.record_bytes for part in self.parts)

    @property
    def read_bytes(self) -> int:
        return sum(part.read_bytes for part in self.parts)

    @property
    def first_parts(self) -> tuple[Split, ...]:
        """The parts that are drawn from at step 0: their samples are an epoch."""
        return tuple(part for part, weight in zip(self.parts, self.phases[0][1], strict=False) if weight)

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """For each phase, the fingerprint of its parts, in their order, and of its weights."""
        parts = [part.fingerprint for part in self.parts]
        return tuple(_hashed(map("{} {!r}".format, parts, weights)) for _, weights in self.phases)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the parts and their weights, of all phases."""
        phases = self.fingerprints
        steps = [step for step, _ in self.phases]
        return phases[0] if len(phases) == 1 else _hashed(map("{} {}".format, steps, phases))

    @cached_property
    def _starts(self) -> np.ndarray:
        return np.cumsum([0, *map(len, self.parts)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    @checked
    def payloads(self, indices: NDArray[np.integer]) -> list[bytes]:
        """Return the serialized Examples at `indices`, int64 [k], in order. Raises IndexError, RecordError."""
        found = [b""] * len(indices)
        for number, chosen in self._by_part(indices):
            payloads = self.parts[number].payloads(indices[chosen] - self._starts[number])
            for target, payload in zip(chosen.tolist(), payloads, strict=True):
                found[target] = payload
        return found

    @checked
    def where(self, index: Natural) -> str:
        """Return the location of the sample at `index` as error messages show it. Raises IndexError."""
        ((number, _),) = self._by_part(np.array([index]))
        return self.parts[number].where(index - int(self._starts[number]))

    @checked
    def places(self, indices: NDArray[np.integer]) -> np.ndarray:
        """Part number and place in that part's split, combined in one number, int64 [k]."""
        found = np.zeros(len(indices), np.int64)
        for number, chosen in self._by_part(indices):
            places = self.parts[number].places(indices[chosen] - self._starts[number])
            found[chosen] = (number << _PLACE_BITS) + places
        return found

    def _by_part(self, indices: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """Return (part, which of `indices` are in it) for the parts that occur."""
        if len(indices) and not 0 <= indices.min() <= indices.max() < len(self):
            raise IndexError(f"{self.name} has {len(self)} samples, got the index {indices.max()}")
        numbers = np.searchsorted(self._starts, indices, "right") - 1
        return [(int(number), np.flatnonzero(numbers == number)) for number in np.unique(numbers)]


def _hashed(lines: Iterable[str]) -> str:
    return blake2b("\n".join(lines).encode(), digest_size=16).hexdigest()


# Serialized samples by number. Their properties do not change.
Samples = Split | Mixture


def check_samples(name: str, samples: Any) -> None:
    """Raise UsageError, with the expression to type, for a dataset or a path where a split is expected."""
    if isinstance(samples, str | os.PathLike):
        path = escape(os.fspath(samples))
        problem, remedy = f"got the path {path!r}, expected a split", f'for example shardfeed.open({path!r})["train"]'
        raise UsageError(name, problem, remedy)
    if isinstance(samples, Mapping):
        problem = "got a dataset of several splits, expected one split"
        names = [f'data["{escape(str(name))}"]' for name in samples]
        raise UsageError(name, problem, f"give {' or '.join(names)}" if names else "this one has no splits")
    if not hasattr(samples, "schema"):
        problem = f"got {type(samples).__name__}, expected a split, a part of one, or a mix"
        raise UsageError(name, problem, 'for example shardfeed.open(DIR)["train"]')


SamplesLike = Annotated[Samples, check_samples]
SplitLike = Annotated[Split, check_samples]


_PAIRS = 'for example mix([(data["train"], 3), (more["train"], 1)])'
_STEPS = "for example {0: (3, 1), 10_000: (1, 1)}"
_Part = Split | tuple[Split, float]


@checked
def mix(
    parts: Annotated[Sequence[_Part], _PAIRS],
    weights: Annotated[Mapping[Step, Sequence[float]] | None, _STEPS] = None,
) -> Mixture:
    """Combine splits of one dataset or several, drawing from each in proportion to its weight.

    In each batch, a split gets the share that its weight asks for, rounded down or up. The size of a split does not
    matter: samples of a small split repeat more often. An epoch has as many samples as all splits together that have a
    weight at step 0, unless `Global(epoch_samples=...)` sets a different number. The schema of the mix has the features
    that all splits share.

    Args:
        parts: pairs of a split and its weight, a number above 0; with `weights`, splits.
        weights: the weights of all splits by the step of the run from which on they hold; 0 leaves a split out. What
            was used of a split before is used again only after the rest. See also `Position.continued_with`.

    Raises:
        UsageError: if there are no parts, if a part is empty or its weight is not above 0 (with `weights`, at no step),
            if steps do not begin at 0 and ascend, if the class names of a shared label, of keypoints or of segmentation
            masks differ (a number would have two meanings), or if the parts share no feature, or not all of the first.

    Example:
        both = mix([(flowers["train"], 3), (plants["train"], 1)])
        both = mix([flowers["train"], plants["train"]], {0: (3, 1), 10_000: (1, 1)})
        batches = train_batches(both, batch_size=256, image_size=224)
    """
    if not parts:
        raise UsageError("parts", "got no splits, expected pairs of a split and its weight")
    alone = [isinstance(part, Split) for part in parts]
    if any(alone) if weights is None else not all(alone):
        got = "a split alone" if weights is None else "pairs and weights"
        raise UsageError("parts", f"got {got}, expected splits and weights, or pairs of (Split, a number)", _PAIRS)
    splits = tuple(part if isinstance(part, Split) else part[0] for part in parts)
    given = [(part[0], part[1]) for part in parts if not isinstance(part, Split)]
    for split, weight in given:
        if not 0 < weight < math.inf:
            raise UsageError("parts", f"got the weight {weight!r} for split {split.name}, expected a number above 0")
    phases = _phases({0: [weight for _, weight in given]} if weights is None else weights, len(parts))
    for number, split in enumerate(splits):
        if len(split) == 0:
            raise UsageError("parts", f"split {split.name} has no samples", "leave it out")
        if not any(of_phase[number : number + 1] > (0,) for _, of_phase in phases):
            raise UsageError("weights", f"split {split.name} has weight 0 at all steps", "leave it out")
    first = splits[0]
    for split in splits[1:]:
        for key in sorted(first.schema.class_names.keys() & split.schema.class_names.keys()):
            ours, theirs = first.schema.class_names[key], split.schema.class_names[key]
            if ours != theirs:
                at = next((i for i, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None)
                what = f"class {at} is {ours[at]!r} and {theirs[at]!r}" if at is not None else "their numbers differ"
                remedy = (
                    "`shardfeed relabel` changes the classes of a dataset, `shardfeed merge` joins both by class name"
                )
                raise UsageError("parts", f"the class names of {key} differ: {what}", remedy)
        for key, what in ((KEYPOINT_X, "keypoints"), (RASTER, "raster")):
            both = key in first.schema.features and key in split.schema.features
            if both and getattr(first.schema, what) != getattr(split.schema, what):
                problem = f"the {what} of splits {first.name} and {split.name} have different meanings"
                raise UsageError("parts", problem, "convert both with the same list of names")
    mixture = Mixture(splits, phases)
    if not (features := mixture.schema.features):
        raise UsageError("parts", "the splits share no feature")
    if lost := sorted(replace(mixture, parts=mixture.first_parts).schema.features.keys() - features.keys()):
        problem = f"the splits drawn from at step 0 share {lost[0]}, which one that joins later lacks, or has otherwise"
        raise UsageError("parts", problem, "convert it with the same annotations and options as the others")
    return mixture


def _phases(weights: Mapping[int, Sequence[float]], parts: int) -> tuple[tuple[int, tuple[float, ...]], ...]:
    """The phases of weights by step: without those that change nothing, and without zeros at their ends."""
    steps = list(weights)
    if steps[:1] != [0] or steps != sorted(steps):
        raise UsageError("weights", f"got the steps {steps[:8]}, expected them to begin at 0 and ascend", _STEPS)
    phases: list[tuple[int, tuple[float, ...]]] = []
    for step, given in weights.items():
        if len(given) != parts:
            raise UsageError("weights", f"got {len(given)} for step {step}, expected {parts}, one for each split")
        if not all(0 <= weight < math.inf for weight in given) or not any(given):
            problem = f"got {list(given)[:8]} for step {step}, expected numbers of at least 0, and one above 0"
            raise UsageError("weights", problem)
        last = max(number for number, weight in enumerate(given) if weight)
        kept = tuple(float(weight) for weight in given[: last + 1])
        if not phases or phases[-1][1] != kept:
            phases.append((int(step), kept))
    return tuple(phases)


def images_checked(samples: Samples) -> bool:
    """Whether all images, also those outside of a part of a split, were decoded when they were stored."""
    return all(split.shards.info.checked for split in (samples.parts if isinstance(samples, Mixture) else (samples,)))


def pixel_dtype(samples: Samples) -> np.dtype:
    """The dtype of the samples' pixels: uint16 if all images were stored with 16 bits, uint8 if none was.

    Raises UsageError if only some were: what a level of the others means, nobody knows.
    """
    deep = 0
    for split in samples.parts if isinstance(samples, Mixture) else (samples,):
        if {*split.formats} == {PNG16}:
            deep += len(split)
        elif PNG16 in split.formats:  # the samples may be a part of them
            deep += np.count_nonzero(split.column(FORMAT) == PNG16.encode())
    if 0 < deep < len(samples):
        problem = f"{deep:,} of {len(samples):,} images have 16 bits, the others 8"
        remedy = f'split.select(split.column("{FORMAT}") == b"{PNG16}") has the former, with != the latter'
        raise UsageError(samples.name, problem, remedy)
    return np.dtype(np.uint16 if deep else np.uint8)


def where_found(samples: Samples, payload: bytes) -> str:
    """Return the place of the first sample with this serialized record, for errors; the split's name if there is none.

    Every record of the same size is read.
    """
    for split in samples.parts if isinstance(samples, Mixture) else (samples,):
        if isinstance(split, Split) and (place := split.shards.find(payload)) is not None:
            return split.shards.place(place)
    return f"split {samples.name}"


def named(payload: bytes) -> str:
    """Return the suffix to a record's place in errors: ` (its image/filename)`, or "" if it has none."""
    dtype, values = decode(payload, {FILENAME}).get(FILENAME, ("bytes", ()))
    return f" ({escape(bytes(values[0]))})" if dtype == "bytes" and len(values) == 1 else ""
