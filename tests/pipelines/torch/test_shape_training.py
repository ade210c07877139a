"""A small network trains on batches of shapes, on two ranks; one is killed, and the other goes on. Also the script."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import shardfeed
from shardfeed.converters import convert, from_dicts
from shardfeed.pipelines import Global
from shardfeed.pipelines.torch import letterbox, torch_loader

SHAPES, BATCH, EPOCHS = [(16, 24), (24, 16), (20, 20)], 8, 2


def run(data: Path, out: Path, processes: int, killed_at: int = -1) -> int:
    """Train until the end, or until rank 1 is killed; return the exit status."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command += [__file__, str(data), str(out), str(killed_at)]
    return subprocess.run(command, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=600).returncode


@pytest.mark.long
def test_killed_on_two_ranks_and_gone_on_with_on_one(tmp_path: Path) -> None:
    from object_images import encoded  # not in the script

    draw, dicts = np.random.default_rng(4), []
    for number in range(83):
        pixels = draw.integers(0, 256, (*draw.integers(16, 60, 2), 3), np.uint8)
        dicts.append({"key": f"{number}.jpg", "image": encoded(pixels, "JPEG"), "label": f"{number % 3}"})
    convert(from_dicts(dicts), tmp_path / "data", split={"train": 1.0}, workers=1)
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    assert run(tmp_path / "data", tmp_path / "whole", 1) == 0
    assert run(tmp_path / "data", tmp_path / "killed", 2, killed_at=7) != 0
    assert len(steps(tmp_path / "killed")) == 8
    assert run(tmp_path / "data", tmp_path / "killed", 1) == 0
    expected, found = steps(tmp_path / "whole"), steps(tmp_path / "killed")
    assert found == expected
    assert len(found) == EPOCHS * (83 // BATCH)
    assert len({shape for shape, _ in found.values()}) == len(SHAPES)
    for epoch in range(EPOCHS):
        names = [name for step in range(epoch * 10, epoch * 10 + 10) for name in found[step][1]]
        assert len(names) == len({*names}) == 80
    weights = [torch.load(tmp_path / name / "last.pt")["model"] for name in ("whole", "killed")]
    for key, values in weights[0].items():
        torch.testing.assert_close(values, weights[1][key], atol=1e-4, rtol=1e-3)


def steps(out: Path) -> dict[int, tuple[tuple[int, ...], list[str]]]:
    """Shape and samples of each step; what was done again after the kill is the same."""
    found: dict[int, dict[int, dict[int, Any]]] = {}
    for path in sorted(out.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            step, ranks, rank, shape, names = json.loads(line)
            found.setdefault(step, {}).setdefault(ranks, {})[rank] = shape, names
    made = {}
    for step, of_ranks in found.items():
        each = set()
        for parts in of_ranks.values():
            (shape,) = {tuple(shape) for shape, _ in parts.values()}
            each.add((shape, tuple(name for rank in sorted(parts) for name in parts[rank][1])))
        ((shape, names),) = each
        made[step] = shape, list(names)
    return made


class Named:
    """(image, label, name)."""

    crop = letterbox()

    def __call__(self, record: Any, seed: Any) -> Any:
        return self.crop(record, seed), record["image/class/label"], record["image/filename"]


def main(data: str, out: str, killed_at: int) -> None:
    import torch.distributed as dist
    from torch import nn

    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    options: Any = {"batch_size": BATCH, "transform": Named(), "seed": 3, "workers": 0}
    loader = torch_loader(shardfeed.open(data)["train"], order=Global(shapes=SHAPES), **options)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    last = Path(out, "last.pt")
    if last.exists():
        saved = torch.load(last)
        net.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
    model = nn.parallel.DistributedDataParallel(net)
    with Path(out, f"{ranks}-{rank}.jsonl").open("a") as log:
        while loader.step < EPOCHS * len(loader):
            for images, labels, names in loader:
                step = loader.step - 1
                seen = [*map(bytes.decode, names)]
                print(json.dumps([step, ranks, rank, images.shape[2:], seen]), file=log, flush=True)
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(images / 255), labels).backward()
                optimizer.step()
                dist.barrier()
                if rank == 1 and step == killed_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                if rank == 0 and step != killed_at:  # its work is lost, and done again
                    states = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
                    torch.save({**states, "loader": loader.state_dict()}, last.with_suffix(".new"))
                    last.with_suffix(".new").replace(last)
                dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
