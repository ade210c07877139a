"""The functions that start producers: `shardfeed.pipelines.prefetch` says what they have in common."""

from collections.abc import Iterable
from functools import partial
from multiprocessing.reduction import ForkingPickler

from shardfeed.declared import Natural, Positive, Text, checked
from shardfeed.errors import needing_extra
from shardfeed.pipelines.prefetch.prefetcher import Prefetcher, ThreadWorkers
from shardfeed.pipelines.prefetch.process_workers import IMPORTABLE, ProcessWorkers
from shardfeed.pipelines.prefetch.producers import Producer, check_producers, pickled
from shardfeed.processes import StartMethod, check_may_start


@checked
def prefetch_threads(
    producers: Iterable[Producer], *, buffer: Positive = 2, ordered: bool = True, seed: Natural = 0
) -> Prefetcher:
    """Run each producer in a thread of this process: for producers that wait (files, network) or work in NumPy.

    Batches are passed on without a copy, so a producer must not write to an array after it has yielded it.

    Example:
        def producer(worker):
            for path in sorted(Path("batches").glob("*.npy"))[worker.number :: worker.count]:
                yield np.load(path)

        with prefetch_threads([producer] * 8, ordered=False) as batches:
            for batch in batches:
                print(batch.shape)
    """
    checked = check_producers(producers)
    return Prefetcher(checked, lambda: ThreadWorkers(checked, buffer), buffer=buffer, ordered=ordered, seed=seed)


@checked
def prefetch_processes(
    producers: Iterable[Producer],
    *,
    buffer: Positive = 2,
    ordered: bool = True,
    seed: Natural = 0,
    start_method: StartMethod = "spawn",
) -> Prefetcher:
    """Run each producer in a process of this machine: for producers that compute in Python.

    Arrays are passed in shared memory, which holds `buffer` + 2 batches per producer; an array stays valid as long as
    there is a reference to it. Producers must be picklable. `start_method`: "spawn" or "forkserver". Iterating raises
    WorkerLostError if a worker was killed, and StorageError if there is not enough memory.

    Example:
        def producer(worker):
            random = np.random.default_rng(worker.seed)
            for _ in range(100):
                yield random.random((32, 224, 224, 3), np.float32)

        with prefetch_processes([producer] * 4) as batches:
            for batch in batches:
                print(batch.shape)
    """
    check_may_start("prefetch_processes", remedy="use prefetch_threads, or ")
    checked = check_producers(producers)
    payloads = pickled(checked, ForkingPickler.dumps, "a worker", IMPORTABLE)
    workers = partial(ProcessWorkers, payloads, buffer, start_method)
    return Prefetcher(checked, workers, buffer=buffer, ordered=ordered, seed=seed)


@checked
def prefetch_ray(
    producers: Iterable[Producer],
    *,
    buffer: Positive = 2,
    ordered: bool = True,
    seed: Natural = 0,
    address: Text | None = None,
) -> Prefetcher:
    """Run each producer in an actor of a Ray cluster: for producers that one machine cannot run fast enough.

    `address`: "host:port" of the cluster's head; None tries, in this order: the cluster that this process is connected
    to, the one in RAY_ADDRESS, one running on this machine, or a new one on this machine. Producers must be picklable
    (with cloudpickle); arrays are in Ray's object store and are read-only. If an actor or its node is lost, the
    producer starts again in a new actor, and the batches that were already returned are produced again and skipped. A
    producer must therefore produce the same batches each time. A restart emits a RuntimeWarning. WorkerLostError is
    raised if three restarts fail, if no cluster can be joined, or if the cluster's head has not answered for 20
    seconds.

    Example:
        with prefetch_ray([producer] * 64, address="10.0.0.1:6379") as batches:
            for batch in batches:
                model.train_on_batch(*batch)
    """
    with needing_extra("prefetch_ray"):
        from shardfeed.pipelines.prefetch.ray_workers import ActorWorkers, cloudpickle
        from shardfeed.ray_cluster import check_address

    check_address(address)
    checked = check_producers(producers)
    remedy = "create locks, files and similar objects in the worker"
    payloads = pickled(checked, cloudpickle.dumps, "an actor", remedy)  # pyright: ignore[reportPrivateImportUsage]
    workers = partial(ActorWorkers, payloads, buffer, address)
    return Prefetcher(checked, workers, buffer=buffer, ordered=ordered, seed=seed)
