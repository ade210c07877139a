"""Batches from any Python producers, prepared ahead of their use: in threads, in processes or on a Ray cluster.

    with prefetch_processes([producer] * 4, buffer=2) as batches:
        for batch in batches: ...

prefetch_threads, prefetch_processes, prefetch_ray    start the producers
Producer, Worker                                      a producer, and the worker that runs it
Batches, Prefetcher, Statistics                       the resulting iterators, and statistics of their waits

`producers`: 1 to 4,096 callables or iterables, each run by one worker; see `shardfeed.pipelines.prefetch.producers`.
All three functions have these options and guarantees:

- `buffer`: maximum number of ready batches per producer.
- `ordered`: whether batches come from each running producer in turn, in the same order in each run; otherwise they come
  in the order in which they are ready.
- `seed`: the base of `Worker.seed`, which differs for each worker and each epoch.
- Every batch is returned exactly once. A producer's exception is raised in place of its batch, after all earlier
  batches.

Each function returns a `Prefetcher`, and raises UsageError for invalid arguments.
"""

from typing import TYPE_CHECKING

from shardfeed.lazy import lazy_names

if TYPE_CHECKING:
    from shardfeed.pipelines.prefetch.prefetch import prefetch_processes as prefetch_processes
    from shardfeed.pipelines.prefetch.prefetch import prefetch_ray as prefetch_ray
    from shardfeed.pipelines.prefetch.prefetch import prefetch_threads as prefetch_threads
    from shardfeed.pipelines.prefetch.prefetcher import Batches as Batches
    from shardfeed.pipelines.prefetch.prefetcher import Prefetcher as Prefetcher
    from shardfeed.pipelines.prefetch.prefetcher import Statistics as Statistics
    from shardfeed.pipelines.prefetch.producers import Producer as Producer
    from shardfeed.pipelines.prefetch.producers import Worker as Worker

__all__, __getattr__, __dir__ = lazy_names(__name__)
