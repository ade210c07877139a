"""NumPy without threads of its own, for shardfeed processes that import it and never multiply matrices."""

import os


def no_numpy_threads() -> None:
    """To be called before NumPy is imported: its OpenBLAS starts a thread for each core, and each spins for a while.

    That took 50 ms of CPU time at two cores. Where the environment says how many threads, they are started.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
