# /// script
# dependencies = ["shardfeed[torch]", "torch==2.13.0", "datasets==5.2.0", "accelerate==1.15.0"]
# ///
"""Hugging Face: datasets, and accelerate on two processes."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from program import Data, check, digest, main

import shardfeed

NAME, LABEL, IMAGE = "image/filename", "image/class/label", "image/encoded"


def rows(split):
    for record in split:
        yield {"image": {"bytes": record[IMAGE], "path": None}, "label": record[LABEL], "name": record[NAME].decode()}


@check(
    "Hugging Face `datasets`",
    "datasets",
    'Dataset.from_generator(rows, gen_kwargs={"split": data["train"]}, features=...)',
)
def from_generator(data: Data) -> None:
    import datasets

    opened = shardfeed.open(data.folder())
    features = datasets.Features(
        {
            "image": datasets.Image(decode=False),
            "label": datasets.ClassLabel(names=list(opened.class_names)),
            "name": datasets.Value("string"),
        }
    )
    with tempfile.TemporaryDirectory() as cache:
        made = datasets.Dataset.from_generator(
            rows, gen_kwargs={"split": opened["train"]}, features=features, cache_dir=cache
        )
        found = [(row["name"], row["label"], digest(row["image"]["bytes"])) for row in made]
    data.compare("train", found, "name", "label", "bytes")
    streamed = datasets.IterableDataset.from_generator(rows, gen_kwargs={"split": opened["test"]})
    data.compare("test", [(row["name"], row["label"]) for row in streamed], "name", "label")


TWO = """
import json, sys
import accelerate
import shardfeed
from shardfeed.errors import UsageError
from shardfeed.pipelines.torch import Ranks, torch_eval_loader, torch_loader

how, folder, out = sys.argv[1:]
accelerator = accelerate.Accelerator(cpu=True)
data = shardfeed.open(folder)

def pick(record, seed):
    return {"name": record["image/filename"].decode(), "label": record["image/class/label"]}

one = {"ranks": Ranks(0, 1)} if how == "prepared" else {}
train = torch_loader(data["train"], batch_size=8, transform=pick, seed=3, workers=1, **one)
test = torch_eval_loader(data["test"], batch_size=8, transform=pick, workers=1, **one)
if how == "prepared twice":
    try:
        for _ in accelerator.prepare(train):
            pass
        said = "nothing"
    except UsageError as error:
        said = str(error)
    found = {"said": said}
else:
    if how == "prepared":
        train, test = accelerator.prepare(train, test)
    found = {
        name: [row for batch in loader for row in zip(batch["name"], batch["label"].tolist())]
        for name, loader in (("train", train), ("test", test))
    }
open(f"{out}.{accelerator.process_index}", "w").write(json.dumps(found))
"""


def two_processes(data: Data, how: str) -> list[dict]:
    """Run the script in two processes and return the output of each."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "two.py")
        script.write_text(TWO)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
        environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        subprocess.run([*command, how, data.folder(), f"{folder}/out"], check=True, timeout=300, env=environment)
        return [json.loads(Path(f"{folder}/out.{rank}").read_text()) for rank in range(2)]


@check("Accelerate, 2 processes", "accelerate", "torch_loader(...), not prepared", "each process takes its share")
def not_prepared(data: Data) -> None:
    parts = two_processes(data, "as it is")
    assert len(parts[0]["train"]) == len(parts[1]["train"])
    data.compare("train", [tuple(row) for part in parts for row in part["train"]], "name", "label")
    data.compare("test", [tuple(row) for part in parts for row in part["test"]], "name", "label")


@check("Accelerate, 2 processes", "accelerate", "accelerator.prepare(torch_loader(..., ranks=Ranks(0, 1)))")
def prepared(data: Data) -> None:
    parts = two_processes(data, "prepared")
    data.compare("train", [tuple(row) for part in parts for row in part["train"]], "name", "label")


@check(
    "Accelerate, 2 processes",
    "accelerate",
    "accelerator.prepare(torch_loader(...))",
    "the prepared loader raises UsageError, because both would shard the batches and half of the samples would be lost",
)
def prepared_twice(data: Data) -> None:
    for part in two_processes(data, "prepared twice"):
        assert "ranks" in part["said"], part
    data.note("refused", len(data.values("train", "name")), "refused")


@check("Accelerate, 1 process", "accelerate", "accelerator.prepare(torch_loader(...))")
def one_process(data: Data) -> None:
    import accelerate

    from shardfeed.pipelines.torch import torch_loader

    split = shardfeed.open(data.folder())["train"]
    made = torch_loader(split, batch_size=8, transform=lambda r, _: r[NAME].decode(), workers=1)
    loader = accelerate.Accelerator(cpu=True).prepare(made)
    data.compare("train", [name for batch in loader for name in batch], "name")


if __name__ == "__main__":
    main()
