"""Check `shardfeed bench` against plain loops over the same pipeline: `python benchmarks/bench_truth.py DATASET`.

Each turn runs a loop over `train_batches` in a process of its own, then `shardfeed bench`, then the loop again. The
loop takes batches as fast as they come, then with a pause after each. The table has what bench says by what the loops
say, as a share of it, and the mean wait with pauses by the loop's own clock, by `WaitRecorder` in the same loop, by
`WaitRecorder` in Keras's `fit` with a step of that pause, and by bench. `--changed` is the same dataset converted with
the options of bench's advice.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import Any

LOOP = """
import sys, time
import shardfeed
from shardfeed.pipelines import WaitRecorder, train_batches

directory, seconds, pauses = sys.argv[1], float(sys.argv[2]), [0.0, *(float(ms) / 1e3 for ms in sys.argv[3:])]
recorder = WaitRecorder()
dataset = train_batches(shardfeed.open(directory)["train"], batch_size=64, image_size=224, start_step=0)
batches = iter(recorder.watch(dataset))
for _ in range(40):
    next(batches)
for pause in pauses:
    waits, started, first = [], time.perf_counter(), len(recorder)
    while time.perf_counter() - started < seconds:
        asked = time.perf_counter()
        next(batches)
        waits.append(time.perf_counter() - asked)
        time.sleep(pause)
    rate = 64 * len(waits) / (time.perf_counter() - started)
    print(rate, 1e3 * sum(waits) / len(waits), recorder.waits_ms[first:].mean())
"""
FIT = """
import sys, time
import keras
import shardfeed
from shardfeed.pipelines import WaitRecorder, train_batches

class Pause(keras.callbacks.Callback):
    ended = time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        step = time.monotonic() - self.ended - waits.waits_ms[-1] / 1e3
        time.sleep(max(0.0, pause - step))
        self.ended = time.monotonic()

directory, seconds, pause = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]) / 1e3
batches = train_batches(shardfeed.open(directory)["train"], batch_size=64, image_size=224, start_step=0)
model = keras.Sequential([keras.Input((224, 224, 3)), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(10)])
model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
waits, skipped = WaitRecorder(), 40
steps = skipped + int(seconds / max(pause, 0.02))
model.fit(waits.watch(batches), steps_per_epoch=steps, callbacks=[Pause(), waits.callback()], verbose=0)
print(waits.waits_ms[skipped:].mean())
"""


def loop(program: str, directory: str, seconds: float, *pauses: float) -> list[list[float]]:
    """Run a program, and return the numbers that it prints, a list for each line.

    LOOP: images per second, and the mean wait in milliseconds by its own clock and by the recorder: without a pause,
    and with each of `pauses` (ms). FIT: the mean wait by the recorder.
    """
    command = [sys.executable, "-c", program, directory, str(seconds), *map(str, pauses)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [[*map(float, line.split())] for line in done.stdout.splitlines()]


def bench(directory: str, *options: str) -> dict[str, Any]:
    """The report of `shardfeed bench`."""
    command = [sys.executable, "-m", "shardfeed.tools.cli", "bench", directory, "--json", *options]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description="Check `shardfeed bench` against plain loops.")
    parser.add_argument("dataset")
    parser.add_argument("--changed", metavar="DIR", help="the dataset with --resize-shorter 256")
    parser.add_argument("--model-ms", type=float, default=30.0)
    parser.add_argument("--seconds", default="60", help="of a run of bench (60)")
    parser.add_argument("--turns", type=int, default=5)
    args = parser.parse_args()
    print(
        "| loop, images/s | bench | by the loop's | with pauses | bench | by the loop's "
        "| wait, ms | recorded | in fit | bench | advice |"
    )
    print("|" + 10 * "---:|" + "---|")
    for _ in range(args.turns):
        loops = [loop(LOOP, args.dataset, 8, args.model_ms)]
        changed = [loop(LOOP, args.changed, 8)] if args.changed else []
        started = time.perf_counter()
        report = bench(args.dataset, "--model-ms", str(args.model_ms), "--seconds", args.seconds)
        took = time.perf_counter() - started
        loops += [loop(LOOP, args.dataset, 8, args.model_ms)]
        changed += [loop(LOOP, args.changed, 8)] if args.changed else []
        fitted = loop(FIT, args.dataset, 8, args.model_ms)[0][0]
        rate, paused, wait, recorded = (
            statistics.mean(each[k][m] for each in loops) for k, m in ((0, 0), (1, 0), (1, 1), (1, 2))
        )
        spread = "–".join(f"{each[0][0]:,.0f}" for each in loops)
        if report["refused"]:
            print(f"| {spread} | refused: {report['refused']['problem']} ({took:.0f} s)", flush=True)
            continue
        mine, model = report["pipeline"]["images_per_s"], report["model"]
        factors = {each["change"].partition("OUT ")[2]: each["factor"] for each in report["advice"] or ()}
        advice = ", ".join(f"{change}: {times:.2f}" for change, times in factors.items())
        advice += f" (loops: {statistics.mean(each[0][0] for each in changed) / rate:.2f})" if changed else ""
        print(
            f"| {spread} | {mine:,.0f} | {mine / rate:.2f} "
            f"| {paused:,.0f} | {model['images_per_s']:,.0f} | {model['images_per_s'] / paused:.2f} "
            f"| {wait:.1f} | {recorded:.1f} | {fitted:.1f} | {model['mean_wait_ms']:.1f} | {advice} ({took:.0f} s)",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
