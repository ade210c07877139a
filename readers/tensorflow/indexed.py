"""tf.data of serialized records in a computed order: read by number, in chunks, several at once."""

import atexit
import itertools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from shardfeed.errors import UsageError, shown
from shardfeed.naming import MANIFEST
from shardfeed.readers.split import Split
from shardfeed.schema import Schema

# From arrays that identify a chunk to the augmentation seeds, int64 [k, 2], and the records, [k].
ReadChunk = Callable[..., tuple[np.ndarray, list[bytes]]]

_QUIET_SECONDS = 0.05  # without a call, and without a working thread that could make the next one
_MOST_SECONDS = 10.0  # of waiting when the interpreter ends


class _Calls:
    """Calls of TensorFlow's threads into Python, which must all return before the interpreter ends.

    A thread that calls Python after that waits forever, and so does the iterator that is being destroyed: a script
    whose iterator reads ahead would not exit. So when the interpreter starts to end, calls report that the data has
    ended too, and the interpreter waits until no call is left.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._last = 0.0
        self._ending = False
        atexit.register(self._end)

    @contextmanager
    def call(self) -> Iterator[bool]:
        """Context for Python run by TensorFlow's threads: True if the interpreter ends, and nothing should be done."""
        with self._lock:
            self._running += 1
        try:
            yield self._ending
        finally:
            with self._lock:
                self._running -= 1
                self._last = time.monotonic()

    def _end(self) -> None:
        self._ending = True
        deadline = time.monotonic() + _MOST_SECONDS
        busy = time.monotonic()
        while time.monotonic() < deadline:
            with self._lock:
                busy = max(busy, self._last)
                if self._running or _other_threads_busy():
                    busy = time.monotonic()
            if time.monotonic() - busy > _QUIET_SECONDS:
                return
            time.sleep(_QUIET_SECONDS / 10)


def _other_threads_busy() -> bool:
    """Whether another thread of this process runs, or waits for a core or a disk: it may make a call when it is done.

    On a busy machine that may take seconds, so the absence of calls alone proves nothing.
    """
    own = threading.get_native_id()
    try:
        for task in os.listdir("/proc/self/task"):
            if int(task) != own:
                with open(f"/proc/self/task/{task}/stat", "rb") as file:
                    if file.read().rpartition(b")")[2].split()[0] in (b"R", b"D"):
                        return True
    except (OSError, ValueError):  # a thread that ended meanwhile; or no Linux
        return False
    return False


call_from_tensorflow = _Calls().call


def indexed_records(chunks: tf.data.Dataset, read: ReadChunk, *, parallelism: int) -> tf.data.Dataset:
    """Dataset of the samples that `read` returns for each of `chunks`, a tuple of tensors each, in that order.

    Elements are (seed int64 [2], record string []). `parallelism` chunks are read at once, and held. An error that
    `read` raises ends the iteration; TensorFlow's error includes its message.
    """

    def read_arrays(*chunk: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        seeds, records = read(*map(int, chunk))
        return seeds, np.array(records, object)

    specs = (tf.TensorSpec([None, 2], tf.int64), tf.TensorSpec([None], tf.string))
    return python_map(chunks, read_arrays, specs, parallelism=parallelism).unbatch()


class _CalledFunction(np.ndarray):
    """The memory of the tensor that refers to a Python function: the function lives as long as this memory."""

    function: Callable[..., tuple[Any, ...]]


_NUMBERS = 32  # int64 of such a tensor: TensorFlow copies a captured tensor of up to 128 bytes, and so loses its memory
_ALIGNED = 64  # bytes: at other addresses it copies as well
_called: dict[int, "weakref.ref[_CalledFunction]"] = {}
_next_called = itertools.count()


def _reference(function: Callable[..., tuple[Any, ...]]) -> tf.Tensor:
    """A tensor that refers to `function`, which is freed with the last dataset and iterator that use the tensor.

    TensorFlow keeps a function given to `tf.numpy_function` for ever, with the threads and files that it refers to. A
    tensor lives as long as datasets and iterators in C++ hold it, also those without a Python object.
    """
    for number, called in list(_called.items()):
        if called() is None:
            _called.pop(number, None)
    memory = np.zeros(_NUMBERS * 8 + _ALIGNED, np.uint8)
    start = -memory.ctypes.data % _ALIGNED
    owner = memory[start : start + _NUMBERS * 8].view(np.int64).view(_CalledFunction)
    owner[0] = number = next(_next_called)
    owner.function = function
    _called[number] = weakref.ref(owner)
    with tf.init_scope(), tf.device("CPU:0"):  # a value, even while a function is being traced
        return tf.experimental.dlpack.from_dlpack(owner.__dlpack__())


def _call_referenced(reference: np.ndarray, *arrays: np.ndarray) -> tuple[Any, ...]:
    called = _called[int(reference[0])]()
    assert called is not None, "the tensor that was given keeps it alive"
    return called.function(*arrays)


def python_call(
    function: Callable[..., tuple[Any, ...]], dtypes: Sequence[tf.DType]
) -> Callable[..., tuple[tf.Tensor, ...]]:
    """Make an operation of `function`, from arrays to a tuple of arrays, for the functions of datasets.

    Unlike `tf.numpy_function`, it does not keep `function` after the datasets and iterators that call it are gone.
    """
    reference = _reference(function)

    def call(*tensors: tf.Tensor) -> tuple[tf.Tensor, ...]:
        made = tf.numpy_function(_call_referenced, [reference, *tensors], list(dtypes))
        return tuple(made) if dtypes else ()  # else it is an operation

    return call


def python_map(
    dataset: tf.data.Dataset,
    function: Callable[..., tuple[np.ndarray, ...]],
    specs: tuple[tf.TensorSpec, ...],
    *,
    parallelism: int,
) -> tf.data.Dataset:
    """Map the arrays of each element by `function`, which returns arrays of these specs; `parallelism` calls at once.

    An element is a tuple, or one tensor. An error that `function` raises ends the iteration; TensorFlow's error
    includes its message. When the interpreter begins to end, the data ends. `function` is freed with the dataset.
    """
    nothing = [np.zeros([side or 0 for side in spec.shape], spec.dtype.as_numpy_dtype) for spec in specs]

    def call(*arrays: np.ndarray) -> tuple[Any, ...]:
        with call_from_tensorflow() as ending:
            return (False, *nothing) if ending else (True, *function(*arrays))

    call_python = python_call(call, [tf.bool, *(spec.dtype for spec in specs)])

    @tf.autograph.experimental.do_not_convert  # nothing to convert, and AutoGraph would warn
    def mapped(*tensors: tf.Tensor) -> tuple[tf.Tensor, ...]:
        more, *found = call_python(*tensors)
        for tensor, spec in zip((more, *found), (tf.TensorSpec([], tf.bool), *specs), strict=True):
            tensor.set_shape(spec.shape)
        return more, *found

    def has_more(more: Any, *_: Any) -> Any:
        return more

    found = dataset.map(mapped, num_parallel_calls=parallelism, deterministic=True)
    return found.take_while(has_more).map(lambda _, *tensors: tensors if len(specs) > 1 else tensors[0])


def iteration_number() -> tf.data.Dataset:
    """One number, int64 []: 0 in the first iteration of this dataset object, 1 in the next, and so on."""
    begun = itertools.count()

    def next_number() -> tuple[np.int64]:
        with call_from_tensorflow():
            return (np.int64(next(begun)),)

    call_python = python_call(next_number, [tf.int64])

    @tf.autograph.experimental.do_not_convert
    def number(_: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(call_python()[0], [])

    return tf.data.Dataset.range(1).map(number)


def random_number(seed: int) -> tf.data.Dataset:
    """One number, int64, different in each iteration: the key of an epoch of a finite stream.

    A stream is a graph without Python, where nothing counts iterations. `Dataset.random(seed,
    rerandomize_each_iteration=True)` would mix in the seed of `tf.random.set_seed`.
    """
    numbers = tf.raw_ops.RandomDatasetV2(
        seed=seed,
        seed2=1,
        seed_generator=tf.raw_ops.DummySeedGenerator(),
        rerandomize_each_iteration=True,
        output_types=[tf.int64],
        output_shapes=[[]],
    )
    return tf.data.experimental.from_variant(numbers, tf.TensorSpec([], tf.int64)).take(1)


ParseSpec = dict[str, tf.io.FixedLenFeature | tf.io.RaggedFeature]

_DTYPES = {"bytes": tf.string, "int64": tf.int64, "float32": tf.float32}


def parse_spec(schema: Schema, keys: Iterable[str] | None = None) -> ParseSpec:
    """Specs for `tf.io.parse_single_example` and `tf.io.parse_example`, for the features named by `keys` or for all.

    One record parses to scalars, to tensors of a feature's fixed shape, and to 1-D tensors [n] for ragged features; a
    batch of records to tensors with one dimension more, and to `tf.RaggedTensor`s. A record without a ragged feature
    has no values of it; without any other feature it does not parse.

    Raises UsageError for a key that is not in the schema; the message lists the schema's keys.
    """
    features = schema.features
    chosen = sorted(features) if keys is None else list(keys)
    for key in chosen:
        if key not in features:
            problem = f"got {shown(key)}, which is not a feature of this dataset"
            raise UsageError("keys", problem, f"it has {', '.join(sorted(features))}")
    spec: ParseSpec = {}
    for key in chosen:
        dtype, shape = _DTYPES[features[key].dtype], features[key].shape
        spec[key] = tf.io.RaggedFeature(dtype) if features[key].ragged else tf.io.FixedLenFeature(list(shape), dtype)
    return spec


_BUCKETS = (1 << 63) - 1  # of the hash that identifies a manifest
_REPLACED = "replaced by another dataset since it was opened; open it again: "


def look_at_manifests(split: Split) -> tf.data.Dataset:
    """A dataset without elements that raises an error if the manifest next to the shards has changed.

    Raises IntegrityError if it has already changed.
    """
    hashes: dict[str, int] = {}
    with tf.init_scope():  # numbers, even while a function is being traced
        for shard in split.shard_numbers():
            path = os.path.join(split.shards.read_from(shard)[0], MANIFEST)
            if path not in hashes:  # a split and a copy of some of its shards each have one
                hashes[path] = int(_hash(tf.constant(os.fsencode(path))).numpy())
                split.shards.check_current(shard)  # after it was read: the hashed manifest is the right one

    # As elements, not as constants: reading a file is no state to TensorFlow, which would do it once for all epochs.
    table = ([os.fsencode(path) for path in hashes], tf.constant(list(hashes.values()), tf.int64))
    looks = tf.data.Dataset.from_tensor_slices(table)
    differs: Any = _differs  # the type stubs lack elements of two parts
    return looks.filter(differs).map(lambda path, expected: (expected, path))


@tf.autograph.experimental.do_not_convert
def _differs(path: tf.Tensor, expected: tf.Tensor) -> tf.Tensor:
    """False; an error if the manifest at `path` has another hash."""
    same = tf.equal(_hash(path), expected)
    with tf.control_dependencies([tf.debugging.Assert(same, [_REPLACED, path])]):
        return tf.logical_not(same)


def _hash(path: tf.Tensor) -> tf.Tensor:
    return tf.strings.to_hash_bucket_fast(tf.io.read_file(path), _BUCKETS)
