# /// script
# dependencies = ["shardfeed[torch]", "torch==2.13.0", "torchdata==0.11.0", "tfrecord==1.14.6", "tfrecord-lite==0.0.8",
#   "monai==1.6.1", "spdl==0.8.0"]
# ///
"""Programs that read a map-style dataset of PyTorch, and readers of TFRecords for PyTorch."""

import itertools
import tempfile

import torch
from program import Data, check, digest, main

import shardfeed
from shardfeed.pipelines.torch import torch_loader

NAME, LABEL, IMAGE = "image/filename", "image/class/label", "image/encoded"


def row(record):
    return record[NAME].decode(), record[LABEL], digest(record[IMAGE])


def rows(records):
    return [row(record) for record in records]


def name(record, seed):
    return record[NAME].decode()


@check("PyTorch `DataLoader`", "torch", 'DataLoader(data["train"], batch_size=32, num_workers=2, collate_fn=...)')
def loader(data: Data) -> None:
    split = shardfeed.open(data.folder())["train"]
    for method in ("fork", "spawn"):
        made = torch.utils.data.DataLoader(
            split, batch_size=32, shuffle=True, num_workers=2, multiprocessing_context=method, collate_fn=rows
        )
        data.compare("train", itertools.chain.from_iterable(made), "name", "label", "bytes")
    parts = torch.utils.data.random_split(split, [0.5, 0.5])
    data.compare("train", [row(record) for part in parts for record in part], "name", "label", "bytes")


@check(
    "torchdata `StatefulDataLoader`",
    "torchdata",
    "StatefulDataLoader(loader.dataset, batch_sampler=loader.batch_sampler, collate_fn=loader.collate_fn)",
    "a resume within an epoch is exact",
)
def stateful(data: Data) -> None:
    from torchdata.stateful_dataloader import StatefulDataLoader

    def made():
        ours = torch_loader(shardfeed.open(data.folder())["train"], batch_size=8, transform=name, seed=3)
        return StatefulDataLoader(
            ours.dataset, batch_sampler=ours.batch_sampler, collate_fn=ours.collate_fn, num_workers=2
        )

    first, second = made(), made()
    begun = list(itertools.islice(first, 5))
    second.load_state_dict(first.state_dict())
    data.compare("train", [name for batch in [*begun, *second] for name in batch], "name")


@check("torchdata nodes", "torchdata", 'MapStyleWrapper(map_dataset=data["train"], sampler=...)')
def nodes(data: Data) -> None:
    from torchdata.nodes import Loader, MapStyleWrapper

    split = shardfeed.open(data.folder())["train"]
    node = MapStyleWrapper(map_dataset=split, sampler=torch.utils.data.RandomSampler(split))
    data.compare("train", map(row, Loader(node)), "name", "label", "bytes")


@check(
    "tfrecord (vahidk)",
    "tfrecord",
    "MultiTFRecordDataset('DIR/{}.tfrecord', 'DIR/index/{}.tfindex', splits, infinite=False)",
)
def vahidk(data: Data) -> None:
    from pathlib import Path

    from tfrecord.torch.dataset import MultiTFRecordDataset, TFRecordDataset

    description = {NAME: "byte", LABEL: "int", IMAGE: "byte"}

    def found(records):
        return [(bytes(r[NAME]).decode(), int(r[LABEL][0]), digest(bytes(r[IMAGE]))) for r in records]

    each = [TFRecordDataset(path, data.index_of(path), description) for path in data.files("train")]
    data.compare("train", found(itertools.chain.from_iterable(each)), "name", "label", "bytes")
    splits = {Path(path).stem: 1.0 for path in data.files("train")}
    many = MultiTFRecordDataset(
        f"{data.folder()}/{{}}.tfrecord",
        f"{data.folder()}/index/{{}}.tfindex",
        splits,
        description,
        infinite=False,
        shuffle_queue_size=16,
    )
    data.compare("train", found(many), "name", "label", "bytes")


@check("tfrecord-lite", "tfrecord-lite", "tf_record_iterator(shard)")
def lite(data: Data) -> None:
    from tfrecord_lite import tf_record_iterator

    found = []
    for path in data.files("train"):
        for got in tf_record_iterator(path):
            found.append((bytes(got[NAME][0]).decode(), int(got[LABEL][0]), digest(bytes(got[IMAGE][0]))))
    data.compare("train", found, "name", "label", "bytes")


@check("MONAI", "monai", 'CacheDataset(data["train"], transform=...), PersistentDataset(...)')
def monai(data: Data) -> None:
    from monai.data import CacheDataset, PersistentDataset

    split = shardfeed.open(data.folder())["train"]
    data.compare("train", CacheDataset(split, transform=row, progress=False), "name", "label", "bytes")
    with tempfile.TemporaryDirectory() as folder:
        data.compare("train", PersistentDataset(split, transform=row, cache_dir=folder), "name", "label", "bytes")


@check("SPDL", "spdl", 'PipelineBuilder().add_source(range(n)).pipe(data["train"].__getitem__).add_sink(8).build(...)')
def spdl(data: Data) -> None:
    from spdl.pipeline import PipelineBuilder

    split = shardfeed.open(data.folder())["train"]
    made = PipelineBuilder().add_source(range(len(split))).pipe(split.__getitem__, concurrency=2).add_sink(8)
    pipeline = made.build(num_threads=2)
    with pipeline.auto_stop():
        data.compare("train", map(row, pipeline), "name", "label", "bytes")


if __name__ == "__main__":
    main()
