"""Uses datasets in a bucket in every way there is, for a test that looks for secrets in what is left by it.

    python bucket_uses.py STAGE ARGUMENTS...

It stops at moments: it prints "@ NAME" and waits for a line. Files go to the working directory.
"""

import json
import logging
import os
import pickle
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import shardfeed
from shardfeed.converters import convert, open_source, pull, push
from shardfeed.errors import ShardfeedError
from shardfeed.pipelines import Blocks, Cache, cached
from shardfeed.storage.address import destination
from shardfeed.tools.cli import main as command

OPTIONS: dict[str, Any] = {"batch_size": 8, "image_size": 32, "seed": 1, "order": Blocks(buffer=40, block_bytes=14_000)}


def moment(name: str) -> None:
    """Let the test look."""
    print("@", name, flush=True)
    sys.stdin.readline()


def keep(name: str, value: object) -> None:
    """Print a value, and write its pickle if it has one."""
    print(name, value, repr(value))
    with suppress(TypeError, AttributeError, pickle.PicklingError):
        Path(f"{name}.pickle").write_bytes(pickle.dumps(value))


def look(address: str) -> None:
    """Open, read, and the commands that only read."""
    data = shardfeed.open(address)
    keep("dataset", data)
    print(data._repr_html_())
    Path("manifest.json").write_bytes(data.manifest.to_bytes())
    train = data["train"]
    keep("split", train)
    keep("sample", train[3])
    keep("payloads", train.payloads(np.arange(0, len(train), 9)))
    keep("part", train[5:20])
    keep("column", train.column("image/height"))
    keep("place", train.where(3))
    keep("copy", cached(train, "copied"))
    for line in (
        ["inspect", address, "--details", "--records", "2"],
        ["inspect", address, "--json"],
        ["preview", address, "-o", "sheet.png"],
        ["verify", address, "--deep", "--json"],
        ["report", address, "-o", "report.html", "--json"],
        ["export", address, "exported", "--to", "csv"],
    ):
        print(line[0], command(line))
    moment("looked")


def without_signatures() -> None:
    """Leave out botocore's own lines at the level DEBUG: they have signed heads, with the name of the key."""
    logging.getLogger("botocore").setLevel(logging.INFO)


def write(directory: str, photos: str, url: str) -> None:
    """Copy a dataset to a bucket and back, and make others there."""
    without_signatures()
    for line in (
        ["push", directory, f"{url}/pushed"],
        ["push", directory, f"{url}/pushed", "--json"],
        ["pull", f"{url}/pushed", "pulled"],
        ["convert", photos, f"{url}/converted", "--workers", "1"],
        ["reshard", directory, f"{url}/resharded", "--shards", "1", "--workers", "1"],
    ):
        assert command(line) == 0, line
        moment(line[0])
    keep("destination", destination(f"{url}/pushed"))
    fails("another", lambda: push("pulled", f"{url}/converted"))
    moment("written")


def train(loader: str, address: str, cache: str, position: str = "") -> None:
    """Train without an end, by TensorFlow or by PyTorch's workers of a start method."""
    split = shardfeed.open(address)["train"]
    if cache:
        split = cached(split, Cache(cache, limit="1GB"))
    keep(f"{loader}-split", split)
    if loader == "tensorflow":
        import tensorflow as tf

        from shardfeed.pipelines import distribute

        feed = distribute(tf.distribute.get_strategy(), split, **OPTIONS)
        keep("feed", feed)
        if position:
            feed = feed.at(position)
        batches, after = iter(feed.batches), lambda step: feed.position(feed.start_step + step)
        assert any(True for _ in shardfeed.train_batches(split, **OPTIONS))
    else:
        from shardfeed.pipelines.torch import Workers, torch_loader

        made = torch_loader(split, **OPTIONS, start_step=0, workers=Workers(2, start_method=loader))
        if position:
            made.load_state_dict({"position": position})
        keep(f"{loader}-loader", made)
        batches, after = iter(made), lambda step: made.state_dict()["position"]
    for step in range(1, 100):
        next(batches)
        reached = after(step)
        Path(f"{loader}-position.json").write_text(json.dumps(reached))
        moment(f"{loader} step {step} {reached}")


def fails(name: str, call: Callable[[], object]) -> None:
    """Print, log and pickle the error of a call in all ways there are."""
    try:
        call()
    except ShardfeedError as error:
        print(name, str(error), repr(error), error.args)
        logging.exception(name)
        traceback.print_exception(error, limit=None, chain=True)
        keep(f"error-{name}", error)
    else:
        raise AssertionError(name)


def faults(address: str, *kinds: str) -> None:
    """Each fault of the server, as a plain read, a loader's fetcher and a conversion meet it."""
    without_signatures()
    train = shardfeed.open(address)["train"]
    for number, kind in enumerate(kinds):
        through = cached(train, Cache(f"cache-{number}", limit="1GB"))
        moment(f"fault {kind}")
        fails(f"read-{number}", lambda: shardfeed.open(address)["train"][0])
        fails(f"loader-{number}", lambda through=through: next(iter(shardfeed.torch_loader(through, **OPTIONS))))
        if kind.startswith(("403", "400")):
            fails(f"push-{number}", lambda: push(os.environ["DATASET"], f"{address}-copy"))
            fails(f"pull-{number}", lambda: pull(address, "pulled"))
        if kind != "flip":
            fails(f"source-{number}", lambda: convert(open_source(address), "never", workers=1))
        print("verify", command(["verify", address]))
        moment("fault ")


def wrong() -> None:
    """Addresses that cannot be opened, of the environment's ADDRESSES, by whatever opens one."""
    without_signatures()
    kinds = [f"{kind}://none/flowers" for kind in ("s3", "gs", "az")] + ["hf://datasets/user/none"]
    for number, address in enumerate(json.loads(os.environ.get("ADDRESSES", "null")) or kinds):
        fails(f"open-{number}", lambda address=address: shardfeed.open(address))
        fails(f"pull-{number}", lambda address=address: pull(address, "pulled"))
        fails(f"push-{number}", lambda address=address: push(os.environ["DATASET"], address))
        for name in ("inspect", "verify", "preview", "report"):
            print(name, command([name, address]))
        print("convert", command(["convert", address, f"converted-{number}", "--log", f"log-{number}"]))
    moment("refused")


if __name__ == "__main__":
    {"look": look, "write": write, "train": train, "faults": faults, "wrong": wrong}[sys.argv[1]](*sys.argv[2:])
