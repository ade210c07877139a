"""Batches that are made once: a search in them, and the way back, are refused."""

from typing import NoReturn

from shardfeed.errors import UsageError


class OneWay:
    """Batches that are made in their order, as they are used. A search would use up those that a training should get.

    Python's own search compares with `==`, which raises NumPy's error for arrays.
    """

    __array_ufunc__ = None  # so that a comparison with an array does not read all batches as one

    def __contains__(self, batch: object) -> NoReturn:
        problem = f"got a search in {type(self).__name__}, whose batches are made as they are used"
        raise UsageError("in", problem, "iterate over it, and compare what each batch contains")

    def __reversed__(self) -> NoReturn:
        problem = f"got {type(self).__name__}, whose batches are made in their order"
        raise UsageError("reversed", problem, "iterate over it; array_batches and torch_loader can begin at any step")
