"""Sets of linked members: union-find on arrays."""

import numpy as np


def join(root: np.ndarray, one: np.ndarray, other: np.ndarray) -> None:
    """Merge the sets of each pair, int64 [k] each. `root`: the smallest member of each member's set, int64 [n]."""
    while len(apart := np.flatnonzero(root[one] != root[other])):
        one, other = one[apart], other[apart]
        least = np.minimum(root[one], root[other])
        np.minimum.at(root, root[one], least)
        np.minimum.at(root, root[other], least)
        while (root[root] != root).any():
            root[:] = root[root]
