"""Seeds for code of other libraries: the generators of the process are seeded for the duration of a call."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Context in which the generators of PyTorch (CPU), `random` and NumPy are seeded with `seed`, 0 to 2^63 - 1.

    Afterwards their state is restored: without workers they belong to the user's process.
    """
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()
    torch.default_generator.manual_seed(seed)  # not torch.manual_seed, which would seed GPUs too
    random.seed(seed)
    np.random.seed([seed & 0xFFFFFFFF, seed >> 32])
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])
