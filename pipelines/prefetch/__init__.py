"""Batches from any Python producers, prepared ahead of their use: in threads, in processes or on a Ray cluster.

prefetch_threads, prefetch_processes, prefetch_ray    start the producers
Producer, Worker                                      a producer, and the worker that runs it
Batches, Prefetcher, Statistics                       the resulting iterators, and statistics of their waits
"""

from typing import TYPE_CHECKING

from shardfeed.lazy import lazy_names

if TYPE_CHECKING:
    from shardfeed.pipelines.prefetch.prefetch import prefetch_processes as prefetch_processes
    from shardfeed.pipelines.prefetch.prefetch import prefetch_ray as prefetch_ray
    from shardfeed.pipelines.prefetch.prefetch import prefetch_threads as prefetch_threads
    from shardfeed.pipelines.prefetch.prefetcher import Batches as Batches
    from shardfeed.pipelines.prefetch.prefetcher import Prefetcher as Prefetcher
    from shardfeed.pipelines.prefetch.producers import Producer as Producer
    from shardfeed.pipelines.prefetch.producers import Worker as Worker
    from shardfeed.pipelines.prefetch.waits import Statistics as Statistics

__all__, __getattr__, __dir__ = lazy_names(__name__)
