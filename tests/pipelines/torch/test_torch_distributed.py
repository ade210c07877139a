"""Real torchrun, two processes, gloo over loopback: this file is the script, too."""

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

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
    monkeypatch.setenv("WORLD_SIZE", "9" * 5000)
    with pytest.raises(UsageError, match=r"WORLD_SIZE: got '9+\.\.\. in the environment"):
        this_process()


@pytest.mark.parametrize(
    ("rank", "ranks", "local"),
    [
        *[(2, 2, None), (-1, 2, None), (0, 0, None), (0, 2, 0), ("1", 2, None), (0.5, 2, None)],
        *[(0, 2.0, None), (0, "2", None), (0, 2, "1"), (0, 2, 0.5)],
    ],
)
def test_invalid_ranks_are_refused(rank: Any, ranks: Any, local: Any) -> None:
    with pytest.raises(UsageError, match=r"^(ranks?|local): got"):
        Ranks(rank, ranks, local)


@pytest.fixture
def process(request: pytest.FixtureRequest) -> Iterator[int]:
    """This process as one of eight, with groups that do not communicate."""
    torch.distributed.init_process_group("fake", rank=request.param, world_size=8, store=FakeStore())
    yield request.param
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("process", range(8), indirect=True)
def test_the_rank_in_a_mesh(process: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Ranks.of_mesh(init_device_mesh("cpu", (8,))) == this_process() == Ranks(process, 8)  # as FSDP's own
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("replicate", "shard", "tp"))
    assert Ranks.of_mesh(mesh["replicate", "shard"]) == Ranks(process // 2, 4, local=4)
    assert Ranks.of_mesh(mesh["tp"]) == Ranks(process % 2, 2, local=4)
    assert Ranks.of_mesh(mesh["shard"]).ranks_on_this_machine == 4
    if process == 0:
        with pytest.warns(RuntimeWarning, match=r"dimensions replicate, shard, tp; .* ranks=Ranks\.of_mesh"):
            this_process()
    part = DeviceMesh("cpu", [0, 1, 2])
    if process > 2:
        with pytest.raises(UsageError, match="mesh: this process is not in it"):
            Ranks.of_mesh(part)
    with pytest.raises(UsageError, match="mesh: got 'dp', expected a DeviceMesh"):
        Ranks.of_mesh("dp")


@pytest.mark.long
def test_tensor_parallel_ranks_share_their_samples(flowers: Dataset, tmp_path: Path) -> None:
    """Also after a checkpoint of torch.distributed.checkpoint, which takes the loader as it is."""
    found = run(flowers, tmp_path / "mesh", 4, "mesh")
    steps = len(flowers["train"]) // BATCH
    for name, count in (("epoch", steps), ("rest", steps - 2), ("rest of a state", steps - 2)):
        first, second, third, fourth = (each[name] for each in found)
        assert first == second
        assert third == fourth
        assert [len({*a, *b}) for a, b in zip(first, third, strict=True)] == [BATCH] * count
    assert found[0]["rest"] == found[0]["rest of a state"] == found[0]["epoch"][2:]
    assert found[0]["evaluated"] == found[1]["evaluated"]
    evaluated = [sample for rank in (0, 2) for batch in found[rank]["evaluated"] for sample in batch]
    assert len(evaluated) == len(set(evaluated)) == len(flowers["validation"])
    assert "tp" in found[0]["warned"]
    assert not any(each["warned"] for each in found[1:])


def number(record: Any, seed: int) -> tuple[torch.Tensor, int]:
    return torch.tensor([seed % 7], dtype=torch.float32), int(record["image/source_id"])


def in_a_mesh(directory: str, checkpoint: str) -> dict[str, Any]:
    """Return what one of four processes sees, two of which divide the data."""
    import torch.distributed.checkpoint as dcp

    import shardfeed
    from shardfeed.pipelines.torch import torch_eval_loader, torch_loader

    data = shardfeed.open(directory)
    torch.distributed.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    options: Any = {"batch_size": BATCH, "transform": number, "workers": 0}
    with warnings.catch_warnings(record=True) as caught:
        torch_loader(data["train"], **options)
    options["ranks"] = Ranks.of_mesh(mesh["dp"])
    found: dict[str, Any] = {"warned": " ".join(str(each.message) for each in caught)}
    found["epoch"] = [numbers.tolist() for _, numbers in torch_loader(data["train"], **options)]
    found["evaluated"] = [numbers.tolist() for _, numbers in torch_eval_loader(data["validation"], **options)]
    stopped, again, other = (torch_loader(data["train"], **options) for _ in range(3))
    batches = iter(stopped)
    next(batches), next(batches)
    dcp.save({"loader": stopped, "state": stopped.state_dict()}, checkpoint_id=checkpoint)
    state = {"loader": again, "state": other.state_dict()}
    dcp.load(state, checkpoint_id=checkpoint)
    other.load_state_dict(state["state"])
    found["rest"] = [numbers.tolist() for _, numbers in again]
    found["rest of a state"] = [numbers.tolist() for _, numbers in other]
    return found


def main(directory: str, out: str, what: str) -> None:
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import shardfeed
    from shardfeed.pipelines.torch import torch_eval_loader, torch_loader, torch_predict_loader

    if what == "mesh":
        found = in_a_mesh(directory, f"{out}/checkpoint")
        Path(out, f"{dist.get_rank()}.json").write_text(json.dumps(found))
        dist.barrier()
        dist.destroy_process_group()
        return
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
