"""What tf.data is told about parallelism and buffers: explicit numbers, from what this process was granted.

TensorFlow looks at the host: its thread pools count every core of the machine and its memory budget is half of the
machine's free memory, also in a container that was granted a tenth of both.
"""

import tensorflow as tf


def data_options(cpus: int) -> tf.data.Options:
    """Options of a pipeline whose parallelism and buffers are explicit: `cpus` threads of its own, nothing tuned.

    Autotuning off: its thread delays the end of an iterator by up to seconds an epoch, it reads the host's memory, and
    with explicit numbers it has nothing to find. Deterministic: the same samples in the same order on any machine.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    options.deterministic = True
    options.threading.private_threadpool_size = cpus
    options.threading.max_intra_op_parallelism = 1  # samples run in parallel; splitting one resize only adds waiting
    options.experimental_optimization.inject_prefetch = False  # how much is buffered is the caller's to say
    # One op that decodes straight into the batch: the copy runs on all threads, into memory a GPU can read directly.
    options.experimental_optimization.map_and_batch_fusion = True
    # Should several workers share a pipeline: each takes every n-th sample. Sharding by file starves workers.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return options
