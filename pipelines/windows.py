"""The window of an image, and the random numbers of samples, the same for both frameworks.

What draws a window by them is in `augment/operations/`: random_resized_crop.py, and horizontal_flip.py.

The numbers are those of `tf.random.stateless_uniform`: Philox 4x32 with ten rounds (Salmon et al. 2011, "Parallel
Random Numbers: As Easy as 1, 2, 3"), keyed as TensorFlow keys it, here in NumPy. So a sample's window for PyTorch is
the window that the TensorFlow pipeline cuts in the same epoch, except if the two exponential functions differ in their
last bit and a side is halfway between two pixels.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shardfeed.declared import Int64, check
from shardfeed.pipelines.orders.arithmetic import hashed

# Added to the seed, so that a caller's random op with the same seed gets different numbers than the crop.
OWN_KEY = 0x5EED0FC209
BATCH_KEY = 0xBA7C4  # added to a sample's seed for that of its batch
_BLOCKS = 6  # of four numbers each
UNIFORMS = 4 * _BLOCKS
SPARE = 23  # a number that the crop does not use, which draws a caption

_32, _MASK32 = np.uint64(32), np.uint64(2**32 - 1)
_SCRAMBLE = (np.uint64(0x3EC8F720), np.uint64(0x02461E29))  # TensorFlow's, from a seed to a key and a counter
_TIMES = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_PLUS = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))


class SampleSeed(int):
    """A sample's own seed in its epoch: an int, 0 to 2^63 - 1, for any generator, and the numbers drawn from it.

    `uniform`: float32 [24], of 0..1, what the TensorFlow pipeline draws for the same sample in the same epoch. `shape`:
    (height, width) of the sample's batch, if its order decides it, as `Global(shapes=...)` does. `pair`: int64 [2], the
    order's seed of the sample, from which augmentations draw.
    """

    uniform: np.ndarray
    pair: np.ndarray
    shape: tuple[int, int] | None = None


def own_seed(seed: int) -> SampleSeed:
    """The seed of a sample as loaders pass it to a transform; any other seed, as a user gives one, is made one.

    Raises UsageError unless it is an integer that int64 can hold.
    """
    if isinstance(seed, SampleSeed):
        return seed
    check("seed", seed, Int64)
    return sample_seeds(np.array([[int(seed), 0]], np.int64))[0]


def sample_seeds(seeds: np.ndarray, shape: tuple[int, int] | None = None) -> list[SampleSeed]:
    """Seeds of samples from the order's seeds, int64 [k, 2]. In one call, because one seed takes as long as all."""
    made = []
    numbers = hashed(seeds[:, 0], seeds[:, 1]) >> np.uint64(1)
    for number, uniform, pair in zip(numbers.tolist(), uniform_numbers(seeds), seeds, strict=True):
        seed = SampleSeed(number)
        seed.uniform, seed.pair, seed.shape = uniform, pair, shape
        made.append(seed)
    return made


def batch_seed(seeds: np.ndarray) -> SampleSeed:
    """The seed of a batch, from those of its samples, int64 [k, 2]: that of its first sample, with a key of its own."""
    with np.errstate(over="ignore"):
        return sample_seeds(seeds[:1] + np.int64(BATCH_KEY))[0]


def view_seeds(seeds: np.ndarray, view: int) -> np.ndarray:
    """Seeds of one of several views of samples, int64 [k, 2], from the order's; view 0 has those of a single view."""
    return np.stack([hashed(seeds[:, 0], view).astype(np.int64), seeds[:, 1]], 1) if view else seeds


class Window(NamedTuple):
    """Pixels of an image: rows `top` to `top + height`, columns `left` to `left + width`."""

    top: int
    left: int
    height: int
    width: int


def uniform_numbers(seeds: np.ndarray, own: int | np.ndarray = OWN_KEY, blocks: int = _BLOCKS) -> np.ndarray:
    """The first numbers of TensorFlow's stateless generator, of 0..1: float32 [k, 4 * blocks].

    `seeds`: int64 [k, 2]. `own`: 0 to 2^64 - 1, a key of what draws, so that each draws other numbers by the same seed;
    or several, uint64 [n], for float32 [n, k, 4 * blocks].
    """
    words = seeds.astype(np.uint64)  # modulo 2^64
    with np.errstate(over="ignore"):
        first, second = words[:, 0] + np.asarray(own, np.uint64)[..., None], words[:, 1]
    key0, key1, low, high = _philox((first & _MASK32, first >> _32, second & _MASK32, second >> _32), *_SCRAMBLE)
    counter = np.arange(blocks, dtype=np.uint64)
    words = np.broadcast_arrays(counter, np.zeros((), np.uint64), low[..., None], high[..., None])
    drawn = np.stack(_philox(words, key0[..., None], key1[..., None]), axis=-1).reshape(*first.shape, 4 * blocks)
    return (drawn & np.uint64(0x7FFFFF)).astype(np.float32) * np.float32(2.0**-23)  # 23 bits, as a float32's fraction


def _philox(
    words: Sequence[np.ndarray], key0: np.ndarray | np.uint64, key1: np.ndarray | np.uint64
) -> tuple[np.ndarray, ...]:
    """Four 32-bit words, hashed; each in a uint64."""
    a, b, c, d = words
    for _ in range(10):
        left, right = a * _TIMES[0], c * _TIMES[1]
        a, b, c, d = (right >> _32) ^ b ^ key0, right & _MASK32, (left >> _32) ^ d ^ key1, left & _MASK32
        key0, key1 = (key0 + _PLUS[0]) & _MASK32, (key1 + _PLUS[1]) & _MASK32
    return a, b, c, d
