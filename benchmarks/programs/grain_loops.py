# /// script
# dependencies = ["shardfeed", "grain==0.2.18", "jax==0.10.2"]
# ///
"""Grain, and with it JAX."""

import grain
from absl import flags
from program import Data, check, digest, main

import shardfeed

NAME, LABEL, IMAGE = "image/filename", "image/class/label", "image/encoded"


def row(record):
    return record[NAME].decode(), record[LABEL], digest(record[IMAGE])


@check("Grain `DataLoader`", "grain", 'grain.DataLoader(data_source=data["train"], sampler=..., worker_count=2)')
def loader(data: Data) -> None:
    split = shardfeed.open(data.folder())["train"]
    for workers in (0, 2):
        sampler = grain.samplers.IndexSampler(len(split), shuffle=True, seed=1, num_epochs=1)
        loaded = grain.DataLoader(data_source=split, sampler=sampler, worker_count=workers)
        data.compare("train", map(row, loaded), "name", "label", "bytes")


@check("Grain `MapDataset`", "grain", 'grain.MapDataset.source(data["train"]).shuffle(7).map(...).batch(32)')
def dataset(data: Data) -> None:
    split = shardfeed.open(data.folder())["train"]
    made = grain.MapDataset.source(split).shuffle(seed=7).map(row)
    data.compare("train", made.to_iter_dataset(), "name", "label", "bytes")
    shards = [grain.MapDataset.source(split)[part::2].map(row) for part in range(2)]
    data.compare("train", [item for shard in shards for item in shard], "name", "label", "bytes")


@check(
    "Grain `ArrayRecordDataSource`",
    "grain",
    "grain.sources.ArrayRecordDataSource(glob('DIR/train*'))",
    "`--to arrayrecord`",
)
def array_record(data: Data) -> None:
    from shardfeed.formats.example import decode

    source = grain.sources.ArrayRecordDataSource(data.files("train", "photos-arrayrecord"))
    fields = [decode(source[place], (NAME, LABEL, IMAGE)) for place in range(len(source))]
    found = [row({NAME: one[NAME][1][0], LABEL: int(one[LABEL][1][0]), IMAGE: one[IMAGE][1][0]}) for one in fields]
    data.compare("train", found, "name", "label", "bytes")


@check(
    "Grain checkpoints",
    "grain",
    "iterator.get_state(), set_state(...)",
    "the state of a different dataset or view is refused, because its `repr` differs",
)
def checkpoint(data: Data) -> None:
    split = shardfeed.open(data.folder())["train"]

    def iterator(source):
        sampler = grain.samplers.IndexSampler(len(source), shuffle=False, num_epochs=1)
        return iter(grain.DataLoader(data_source=source, sampler=sampler, worker_count=0))

    first = iterator(split)
    begun = [row(next(first)) for _ in range(10)]
    state = first.get_state()
    again = iterator(split)
    again.set_state(state)
    data.compare("train", [*begun, *map(row, again)], "name", "label", "bytes")
    for other in (split[::-1], split.select(range(len(split))[::-1])):
        try:
            iterator(other).set_state(state)
        except ValueError:
            continue
        raise AssertionError("the state of another view was taken")


@check("JAX", "jax", "jax.numpy.asarray(batch)", "tested with Grain's batches of a split")
def arrays(data: Data) -> None:
    import jax.numpy as jnp
    import numpy as np

    split = shardfeed.open(data.folder())["train"]
    batches = grain.MapDataset.source(split).map(lambda r: np.int32(r[LABEL])).batch(16).to_iter_dataset()
    labels = [int(x) for batch in batches for x in jnp.asarray(batch)]
    data.compare("train", labels, "label")


if __name__ == "__main__":
    flags.FLAGS([__file__])  # as absl.app.run would: Grain's processes ask for their flags
    main()
