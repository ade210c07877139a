"""How long a training step waits for its batch, with each way to make batches ahead: `python benchmarks/wait.py`.

Batches are float32 (4, 1,000,000, 3), 48 MB, from a producer that waits for 0.3 s, as for a network, and computes for
about 0.05 s; the consumer's step takes 0.1 s, as on a GPU. So one producer is too slow, and six of them are not.
"tf.data, our shards" makes batches of as many bytes: four photos, decoded, cropped to 1000 x 1000, cast to float32.

Each contender is a process of its own; rounds alternate. Apart are the first batch, with all that starts for it
(imports of TensorFlow and Ray included), and the six that follow, while buffers fill for the first time.
Results: benchmarks/results/wait.json, wait.md and docs/wait.webp (`--plot` draws elsewhere).
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from shardfeed.pipelines import as_dataset
from shardfeed.pipelines.prefetch import (
    Prefetcher,
    Worker,
    prefetch_processes,
    prefetch_ray,
    prefetch_threads,
)

HERE = Path(__file__).parent
RESULTS = HERE / "results"
SHAPE = (4, 1_000_000, 3)
SLEEP = 0.3  # seconds the producer waits
STEP = 0.1  # seconds of the consumer's step
WORKERS = 6
BUFFER = 2
PHOTOS = 96


def produce(worker: Worker | None = None) -> Iterator[np.ndarray]:
    """Batches without end."""
    rng = np.random.default_rng(worker.seed if worker else 0)
    while True:
        time.sleep(SLEEP)
        batch = rng.random(SHAPE, np.float32)
        batch -= batch.mean(dtype=np.float32)
        yield batch


def plain(stack: ExitStack) -> Iterator[Any]:
    return produce()


def from_generator(stack: ExitStack) -> Iterator[Any]:
    import tensorflow as tf

    dataset = tf.data.Dataset.from_generator(produce, output_signature=tf.TensorSpec(SHAPE, tf.float32))
    return iter(dataset.prefetch(BUFFER))


def prefetched(make: Callable[..., Prefetcher], dataset: bool = False) -> Callable[[ExitStack], Iterator[Any]]:
    def batches(stack: ExitStack) -> Iterator[Any]:
        # From a module, as in anyone's project, so that workers need not import this script.
        sys.path.insert(0, str(HERE))
        os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        producer = importlib.import_module("wait").produce
        prefetcher = stack.enter_context(make([producer] * WORKERS, buffer=BUFFER))
        return iter(as_dataset(prefetcher) if dataset else prefetcher)

    return batches


def our_shards(stack: ExitStack) -> Iterator[Any]:
    import shardfeed
    from shardfeed.pipelines import train_batches

    split = shardfeed.open(RESULTS / "wait-photos" / "dataset")["train"]
    batches = train_batches(split, batch_size=SHAPE[0], image_size=1000, seed=0)
    floats = batches.repeat().map(lambda images, labels: images_as_floats(images), num_parallel_calls=2)
    return iter(floats.prefetch(BUFFER))


def images_as_floats(images: Any) -> Any:
    import tensorflow as tf

    return tf.cast(images, tf.float32) / 255


CONTENDERS: dict[str, Callable[[ExitStack], Iterator[Any]]] = {
    "plain generator": plain,
    "from_generator().prefetch": from_generator,
    "threads": prefetched(prefetch_threads),
    "processes": prefetched(prefetch_processes),
    "Ray": prefetched(prefetch_ray),
    "processes, as_dataset": prefetched(prefetch_processes, dataset=True),
    "tf.data, our shards": our_shards,
}


def waits_of(name: str, steps: int) -> list[float]:
    """Seconds waited for each batch, from the very first on."""
    with ExitStack() as stack:
        waits = []
        began = time.perf_counter()
        batches = CONTENDERS[name](stack)
        for _ in range(1 + WORKERS + steps):
            batch = next(batches)
            waits.append(time.perf_counter() - began)
            time.sleep(STEP)
            began = time.perf_counter()
        assert int(np.prod(batch.shape)) == int(np.prod(SHAPE)), batch.shape
    return waits


def make_dataset() -> None:
    """Photos of 1200 x 1000 pixels in one dataset, unless it is there."""
    from photos import make_photos

    from shardfeed.converters import ImageFolder, convert

    place = RESULTS / "wait-photos"
    if not (place / "dataset").exists():
        make_photos(str(place / "images"), PHOTOS, (1200, 1000))
        convert(ImageFolder(place / "images"), place / "dataset", split={"train": 1.0})


def table(waits: dict[str, list[float]], first: dict[str, list[float]]) -> str:
    lines = ["| | mean wait | p99 wait | steps of 0.1 s take | first batch |", "|---|---|---|---|---|"]
    for name, found in waits.items():
        mean, p99 = np.mean(found), np.percentile(found, 99)
        start = np.median(first[name])
        lines.append(
            f"| {name} | {mean * 1e3:,.2f} ms | {p99 * 1e3:,.2f} ms | {(STEP + mean) * 1e3:,.0f} ms | {start:.1f} s |"
        )
    return "\n".join(lines) + "\n"


def plot(waits: dict[str, list[float]], path: Path) -> None:
    sys.path.insert(0, str(HERE.parent / "docs" / "pictures"))
    from style import LIGHT, charts, save

    names = list(waits)[::-1]
    with charts(LIGHT) as plt:
        figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
        for height, name in enumerate(names):
            found = np.maximum(np.array(waits[name]) * 1e3, 1e-3)
            axes.plot(found, np.full(len(found), height), "|", color=LIGHT.blue, alpha=0.3, markersize=12)
            axes.plot(found.mean(), height, "o", color=LIGHT.ink)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.axvline(1, color=LIGHT.soft, linewidth=0.8, linestyle=":")
        axes.set_yticks(range(len(names)), names)
        axes.set_xlabel("wait for a batch of 48 MB, ms (dot: mean)")
        save(figure, path)
        plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100, help="of each contender in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--plot", type=Path, default=HERE.parent / "docs" / "wait.webp")
    parser.add_argument("--one", choices=CONTENDERS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(waits_of(options.one, options.steps)))
        return 0
    RESULTS.mkdir(exist_ok=True)
    names = [name for name in options.only if name != "Ray" or importlib.util.find_spec("ray")]
    if "tf.data, our shards" in names:
        make_dataset()
    waits: dict[str, list[float]] = {name: [] for name in names}
    first: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(options.rounds):
        for name in names if turn % 2 == 0 else names[::-1]:
            command = [sys.executable, __file__, "--one", name, "--steps", str(options.steps)]
            quiet = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=quiet, check=True)
            start, *found = json.loads(done.stdout.splitlines()[-1])
            waits[name] += found[WORKERS:]
            first[name].append(start)
            print(f"round {turn + 1}: {name}: {np.mean(found[WORKERS:]) * 1e3:.2f} ms", file=sys.stderr)
    (RESULTS / "wait.json").write_text(json.dumps({"waits": waits, "first": first}))
    (RESULTS / "wait.md").write_text(table(waits, first))
    plot(waits, options.plot)
    print(table(waits, first))
    return 0


if __name__ == "__main__":
    sys.exit(main())
