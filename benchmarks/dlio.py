"""DLIO, of MLPerf Storage: how many H100 of versions 1.0 and 2.0 does a core feed, by shardfeed and by DLIO's readers?

    python benchmarks/dlio.py FOLDER [--files 12] [--accelerators 1 2 4 8] [--core 1]

The workload is their resnet50_h100, which 3.0 does not rank: 1,251 records of 115 kB per file, batches of 400, 0.224 s
for a step. It runs with `--files` files instead of 1,024, and two threads. DLIO generates them in FOLDER, once;
`shardfeed adopt` makes a dataset of them. DLIO's PyTorch reader cannot read TFRecords: it reads as many bytes in DLIO's
indexed_binary.

Each reader runs once, on one core. After a warm-up, an epoch without a pause between steps gives its rate and its CPU
time, then the step gets shorter from epoch to epoch: 0.224 s / n is what n accelerators ask of a reader. Utilisation is
DLIO's, without the first step of an epoch. Other programs on the machine take from it: use an idle one.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from environments import ENVIRONMENTS, clean_environment, environment_python

_PACKAGES = ("shardfeed[tensorflow,torch]", "mpi4py==4.1.2", "mpich==5.0.2", "hydra-core==1.3.8", "pandas==3.1.1")
_PACKAGES += ("h5py==3.14.0", "psutil==7.2.2", "pydftracer==1.0.2", "nvidia-dali-cuda120==2.4.0")
# Without what it requires: another version of DALI, and torchvision, which it does not use. The published figures are
# of 2.0.0. In 2.0.1 a shuffled map of samples names records twice: argonne-lcf/dlio_benchmark, pull request 341.
_DLIO = "dlio_benchmark==2.0.0"
STEP, BATCH, SAMPLES, THREADS = 0.224, 400, 1251, 2
_OURS = "++workload.reader.data_loader_sampler=index", "++workload.reader.data_loader_classname=dlio_loader."
_TORCH, _TF = "++workload.framework=pytorch", "++workload.framework=tensorflow"
_LOADER = "++workload.reader.data_loader="
_BINARY = "++workload.dataset.format=indexed_binary"
READERS: dict[str, tuple[str, ...]] = {
    "shardfeed, `make_batches`": (_TF, f"{_LOADER}tensorflow", _OURS[0], f"{_OURS[1]}TensorFlowLoader"),
    "shardfeed, `torch_loader`": (_TORCH, f"{_LOADER}pytorch", _BINARY, _OURS[0], f"{_OURS[1]}TorchLoader"),
    "shardfeed, `torch_loader`, a thread": (_TORCH, f"{_LOADER}pytorch", _BINARY, _OURS[0], f"{_OURS[1]}ThreadLoader"),
    "DLIO, TensorFlow": (_TF, f"{_LOADER}tensorflow"),
    "DLIO, DALI": (_TORCH, f"{_LOADER}native_dali"),
    "DLIO, PyTorch": (_TORCH, f"{_LOADER}pytorch", _BINARY),
    "DLIO, PyTorch, without the line": (_TORCH, f"{_LOADER}pytorch", _BINARY),
}


def dlio_python() -> str:
    python = environment_python("dlio", _PACKAGES)
    if not (ENVIRONMENTS / "dlio" / "bin" / "dlio_benchmark").exists():
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", _DLIO], check=True)
    return python


def run(
    python: str, folder: Path, files: int, seconds: list[float], given: list[str], core: int
) -> list[dict[str, Any]]:
    """Run DLIO; of each epoch its samples/s, utilisation in percent, and CPU µs per sample. None if it generates."""
    form = "binary" if _BINARY in given else "records"
    options = ["workload=resnet50_h100", f"++workload.dataset.data_folder={folder / form}", *given]
    options += [f"++workload.dataset.num_files_train={files}", f"++workload.train.epochs={len(seconds)}"]
    options += [f"++workload.reader.read_threads={THREADS}", f"++workload.reader.computation_threads={THREADS}"]
    environment = clean_environment() | {
        "PYTHONPATH": str(Path(__file__).parent),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "HYDRA_FULL_ERROR": "1",
    }
    environment["PATH"] = f"{Path(python).parent}:{os.environ['PATH']}"  # it calls tfrecord2idx, of DALI
    with tempfile.TemporaryDirectory() as out:
        command = [python, str(Path(__file__).with_name("dlio_loader.py")), json.dumps(seconds), *options]
        command += [f"++workload.output.folder={out}", f"hydra.run.dir={out}"]
        pinned = ["taskset", "-c", str(core), *command] if seconds else command
        done = subprocess.run(pinned, env=environment, capture_output=True, text=True, cwd=out)
        if done.returncode:
            raise RuntimeError(done.stderr[-3000:])
        if not seconds:
            return []
        found = json.loads(Path(out, "summary.json").read_text())["metric"]
        samples = files * SAMPLES // BATCH * BATCH
        cpu = [1e6 * used / samples for used in json.loads(done.stdout.splitlines()[-1])]
    rates = found["train_throughput_samples_per_second"], found["train_au_percentage"], cpu
    return [{"rate": rate, "utilisation": part, "cpu": used} for rate, part, used in zip(*rates, strict=True)]


def generate(python: str, folder: Path, files: int) -> None:
    work = ["++workload.workflow.generate_data=True", "++workload.workflow.train=False"]
    for form, of in {"records": [], "binary": [_TORCH, f"{_LOADER}pytorch", _BINARY]}.items():
        if len(list((folder / form / "train").glob(f"*_of_{files}.*"))) < files:
            run(python, folder, files, [], [*work, *of], 0)
    for form in ("records", "binary"):  # where the plug-in of either framework looks
        if not (folder / form / "adopted").exists():
            adopt = [str(Path(sys.executable).with_name("shardfeed")), "adopt", str(folder / "records" / "train")]
            subprocess.run([*adopt, str(folder / form / "adopted"), "--split-name", "train"], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="DLIO's resnet50_h100 by shardfeed and by DLIO's own readers.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=12)
    parser.add_argument("--accelerators", type=int, nargs="*", default=[1, 2, 4, 6, 8, 12])
    parser.add_argument("--core", type=int, default=1, help="the CPU on which all processes run (1)")
    parser.add_argument("--readers", nargs="+", choices=READERS, default=list(READERS), metavar="NAME")
    parser.add_argument(
        "--shuffled", action="store_true", help="in random order; without: as stored, as in the workload"
    )
    args = parser.parse_args()
    python, folder = dlio_python(), args.folder.resolve()
    generate(python, folder, args.files)
    seconds = [STEP, 0.0, *(STEP / count for count in args.accelerators)]
    names = " | ".join(f"AU {count}" for count in args.accelerators)
    print(f"| reader | samples/s | CPU µs per sample | {names} |\n|---|---:|---:|{'---:|' * len(args.accelerators)}")
    for name in args.readers:
        given = [*READERS[name], *(["++workload.reader.sample_shuffle=random"] if args.shuffled else [])]
        os.environ["WITHOUT_LINE"] = "1" if name.endswith("line") else ""
        try:
            _, fastest, *others = run(python, folder, args.files, seconds, given, args.core)
        except RuntimeError as error:
            print(f"| {name} | failed: {str(error).strip().splitlines()[-1][:200]} |", flush=True)
            continue
        parts = " | ".join(f"{each['utilisation']:.0f} %" for each in others)
        print(f"| {name} | {fastest['rate']:,.0f} | {fastest['cpu']:.0f} | {parts} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
