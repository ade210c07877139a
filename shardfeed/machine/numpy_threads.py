"""NumPy without threads of its own, for shardfeed processes that import it and never multiply matrices."""

import os


def no_numpy_threads() -> None:
    """Keep OpenBLAS from starting threads; call this before importing NumPy. They would spin for a while on each core.

    They took 50 ms of CPU time on two cores. If the environment sets a number of threads, it is respected.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
