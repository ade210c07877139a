"""shardfeed as a data loader of DLIO, and DLIO itself with accelerators of several speeds: see dlio.py.

    python benchmarks/dlio_loader.py SECONDS OVERRIDE ...

SECONDS: those of a step in each epoch, as a list in JSON. The other arguments are for `dlio_benchmark`. The last line
that is printed is a list of the CPU seconds that each epoch took, those of all processes.
"""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import psutil
from dlio_benchmark.common.enumerations import DataLoaderType, Shuffle
from dlio_benchmark.data_loader.base_data_loader import BaseDataLoader
from dlio_benchmark.reader.reader_handler import FormatReader

import shardfeed
from shardfeed.pipelines import Ranks, prefetch_threads


def image(record: Any, seed: int) -> bytes:
    return record["image"]


def pixels(record: Any, seed: int) -> np.ndarray:
    return np.frombuffer(record["image"], np.uint8)


class TorchLoader(BaseDataLoader):
    """`torch_loader` with a process for each read thread: uint8 [b, bytes], of the images of a batch."""

    options: ClassVar[dict[str, Any]] = {}

    def __init__(self, format_type: Any, dataset_type: Any, epoch: int) -> None:
        super().__init__(format_type, dataset_type, epoch, DataLoaderType.PYTORCH)
        self.batches: Any = None

    def read(self) -> None:
        given = self._args
        self.batches = shardfeed.torch_loader(
            shardfeed.open(f"{given.data_folder}/adopted")["train"],
            batch_size=self.batch_size * given.comm_size,
            order="stored" if given.sample_shuffle == Shuffle.OFF else "global",
            ranks=Ranks(given.my_rank, given.comm_size),
            **{"transform": pixels, "workers": given.read_threads} | self.options,
        )

    def next(self) -> Iterator[Any]:
        yield from self.batches

    def finalize(self) -> None:
        pass


class ThreadLoader(TorchLoader):
    """`torch_loader` in a thread of this process, ahead of its use: a list of bytes [b], the images of a batch."""

    options: ClassVar[dict[str, Any]] = {"transform": image, "collate_fn": list, "workers": 0}

    def next(self) -> Iterator[Any]:
        with prefetch_threads([lambda worker: iter(self.batches)], buffer=self._args.prefetch_size) as batches:
            yield from batches


class TensorFlowLoader(TorchLoader):
    """`make_batches`: strings [b], the images of a batch."""

    def read(self) -> None:
        given = self._args
        train = shardfeed.open(f"{given.data_folder}/adopted")["train"]
        share = len(train) // given.comm_size
        self.batches = shardfeed.make_batches(
            train[given.my_rank * share : (given.my_rank + 1) * share],
            lambda features, seed: features["image"],
            batch_size=self.batch_size,
            order="stored" if given.sample_shuffle == Shuffle.OFF else "global",
            keys=["image"],
            workers=given.read_threads,
        )


def cpu_seconds() -> float:
    """CPU time of this process and of all that it started, until now."""
    here = psutil.Process()
    times = [each.cpu_times() for each in (here, *here.children(recursive=True))]
    return sum(one.user + one.system + one.children_user + one.children_system for one in times)


def main(seconds: list[float], overrides: list[str]) -> None:
    from dlio_benchmark import main as dlio

    train, used = dlio.DLIOBenchmark._train, []

    def trained(benchmark: Any, epoch: int) -> int:
        benchmark.computation_time = seconds[epoch - 1]
        before = cpu_seconds()
        steps = train(benchmark, epoch)
        used.append(cpu_seconds() - before)
        return steps

    def read_index(reader: Any, place: int, step: int) -> Any:
        """DLIO's, without a line that formats the list of all samples for each one."""
        filename, row = reader.global_index_map[place]
        if filename not in reader.open_file_map:
            reader.open_file_map[filename] = reader.open(filename)
        reader.get_sample(filename, row)
        return reader._args.resized_image

    dlio.DLIOBenchmark._train = trained
    if os.environ.get("WITHOUT_LINE"):
        FormatReader.read_index = read_index
    if "++workload.reader.data_loader=native_dali" in overrides:
        from dlio_benchmark.data_loader.native_dali_data_loader import NativeDaliDataLoader

        read = NativeDaliDataLoader.read

        def read_anew(loader: Any, init: bool = False) -> None:
            """DLIO's keeps the pipelines of earlier epochs, and DALI takes no more than one here."""
            loader.pipelines = []
            read(loader, init)

        NativeDaliDataLoader.read = read_anew
    sys.argv[1:] = overrides
    dlio.main()
    print(json.dumps(used))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])
