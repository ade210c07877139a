"""Real torchrun, two processes, gloo over loopback: this file is the script, too."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from shardfeed.errors import UsageError
from shardfeed.pipelines.torch.steps import Ranks, this_process
from shardfeed.readers import Dataset

BATCH = 12


def run(flowers: Dataset, out: Path, processes: int, *arguments: str) -> list[dict[str, Any]]:
    """Run so many processes and return the rows that each rank wrote."""
    out.mkdir()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    done = subprocess.run(
        [*command, __file__, flowers.directory, str(out), *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        env=os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads((out / f"{rank}.json").read_text()) for rank in range(processes)]


@pytest.mark.long
def test_two_processes_train_together_and_one_goes_on(flowers: Dataset, tmp_path: Path) -> None:
    both = run(flowers, tmp_path / "two", 2, "both")
    steps = len(flowers["train"]) // BATCH
    for found in both:
        assert found["ranks"] == [both.index(found), 2]
        assert [len(batch) for batch in found["epoch"]] == [BATCH // 2] * steps
        assert found["weights"] == both[0]["weights"]  # DDP averaged the gradients of as many steps
    union = [sample for found in both for batch in found["epoch"] for sample in batch]
    assert len(union) == len(set(union)) == steps * BATCH
    evaluated = [sample for found in both for batch in found["evaluated"] for sample in batch]
    assert sorted(evaluated) == list(range(len(flowers["validation"])))
    assert len(both[0]["evaluated"]) == len(both[1]["evaluated"])
    names = [name.decode() for name in flowers["validation"].column("image/filename").tolist()]
    assert [found["gathered"] for found in both] == [names, names]
    assert both[0]["predicted"] + both[1]["predicted"] == names

    # On one process, from the state that two had after 3 steps of the second epoch.
    assert both[0]["state"] == both[1]["state"]
    (alone,) = run(flowers, tmp_path / "one", 1, json.dumps(both[0]["state"]))
    rest = [a + b for a, b in zip(both[0]["rest"], both[1]["rest"], strict=True)]
    assert alone["rest"] == rest
    assert len(rest) == steps - 3


def test_the_rank_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert (this_process(), this_process().ranks_on_this_machine) == (Ranks(0, 1), 1)
    monkeypatch.setenv("WORLD_SIZE", "8")
    with pytest.raises(UsageError, match="RANK: not in the environment, where WORLD_SIZE is 8"):
        this_process()
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert (this_process(), this_process().ranks_on_this_machine) == (Ranks(3, 8), 4)
    assert Ranks(0, 2).ranks_on_this_machine == 2
    assert Ranks(0, 8, local=1).ranks_on_this_machine == 1
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(UsageError, match="rank: got 3, expected an integer from 0 to 2"):
        this_process()
    monkeypatch.setenv("WORLD_SIZE", "three")
    with pytest.raises(UsageError, match=r"WORLD_SIZE: got 'three' in the environment"):
        this_process()


@pytest.mark.parametrize(
    ("rank", "ranks", "local"),
    [
        *[(2, 2, None), (-1, 2, None), (0, 0, None), (0, 2, 3), (0, 2, 0), ("1", 2, None), (0.5, 2, None)],
        *[(0, 2.0, None), (0, "2", None), (0, 2, "1"), (0, 2, 0.5)],
    ],
)
def test_ranks_that_cannot_be_meant(rank: Any, ranks: Any, local: Any) -> None:
    with pytest.raises(UsageError, match=r"^(ranks?|local): got"):
        Ranks(rank, ranks, local)


def number(record: Any, seed: int) -> tuple[torch.Tensor, int]:
    return torch.tensor([seed % 7], dtype=torch.float32), int(record["image/source_id"])


def main(directory: str, out: str, what: str) -> None:
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import shardfeed
    from shardfeed.pipelines.torch import torch_eval_loader, torch_loader, torch_predict_loader

    data = shardfeed.open(directory)
    # Before torch.distributed knows: by the environment of torchrun.
    loader = torch_loader(data["train"], batch_size=BATCH, transform=number, seed=4, workers=1)
    dist.init_process_group("gloo")
    found: dict[str, Any] = {"ranks": [this_process().rank, this_process().ranks]}
    if what == "both":
        torch.manual_seed(0)
        model = DistributedDataParallel(torch.nn.Linear(1, 1))
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        found["epoch"] = []
        for seen, numbers in loader:
            optimizer.zero_grad()
            model(seen).square().mean().backward()
            optimizer.step()
            found["epoch"].append(numbers.tolist())
        found["weights"] = [parameter.tolist() for parameter in model.parameters()]
        for step, _ in enumerate(loader, 1):
            if step == 3:
                break
        found["state"] = loader.state_dict()
        places = {int(record["image/source_id"]): place for place, record in enumerate(data["validation"])}
        evaluation = torch_eval_loader(data["validation"], batch_size=8, transform=number, workers=1)
        prediction = torch_predict_loader(data["validation"], batch_size=8, image_size=16, workers=1)
        found["predicted"] = [name.decode() for _, names in prediction for name in names]
        parts: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(parts, found["predicted"])
        found["gathered"] = [name for part in parts for name in part]
        found["evaluated"] = [[places[n] for n in numbers.tolist()] for _, numbers in evaluation]
    else:
        found["state"] = json.loads(what)
    again = torch_loader(data["train"], batch_size=BATCH, transform=number, seed=4, workers=1)
    again.load_state_dict(found["state"])
    found["rest"] = [numbers.tolist() for _, numbers in again]
    Path(out, f"{dist.get_rank()}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
