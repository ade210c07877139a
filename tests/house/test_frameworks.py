"""Two frameworks in one process: ours never bring in a second one, and tests load both in the order that works."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from shardfeed.readers import Dataset

from repository import SUPPORT

# Each way that batches are made. The transform fails in a worker process that has loaded TensorFlow.
TRAINS_WITH_TORCH = """
import sys
import torch
import shardfeed
from shardfeed.pipelines.torch import Workers, to_device, torch_eval_loader, torch_loader, torch_predict_loader

def checked(sample, generator=None):
    assert not {"tensorflow", "keras"} & set(sys.modules), "loaded in a worker process"
    return torch.zeros(1), 0

if __name__ == "__main__":
    data = shardfeed.open(sys.argv[1])
    weight = torch.zeros(1, requires_grad=True)
    for workers in (0, 2):
        loader = torch_loader(data["train"], batch_size=16, image_size=32, workers=workers)
        for images, labels in to_device(loader, "cpu", mean=(0.5, 0.5, 0.5), std=(0.2, 0.2, 0.2)):
            (weight * images.mean()).sum().backward()
    processes = Workers(1, start_method=sys.argv[2])
    next(iter(torch_loader(data["train"], batch_size=16, transform=checked, workers=processes)))
    next(iter(torch_eval_loader(data["validation"], batch_size=16, image_size=32)))
    next(iter(torch_predict_loader(data["validation"], batch_size=16, image_size=32)))
    loader.load_state_dict(loader.state_dict())
    print(sorted({"tensorflow", "keras", "ray", "jax"} & set(sys.modules)))
"""

# What loads Triton: the first optimizer, `torch._dynamo`, and what compiles.
USES_BOTH = """
from triton_first import load_triton_before_tensorflow
load_triton_before_tensorflow()
import tensorflow as tf
import torch
torch.optim.Adam([torch.zeros(1, requires_grad=True)])
import torch._dynamo
assert tf.function(lambda x: x + 1, jit_compile=True)(tf.constant(1)).numpy() == 2
assert torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1)).item() == 2
"""

RECORDS_THE_ORDER = """
import sys
sys.path[:0] = sys.argv[1:]
from triton_first import load_triton_before_tensorflow
load_triton_before_tensorflow()
import json
assert not {"triton", "tensorflow"} & set(sys.modules)
import tensorflow
print([name for name in sys.modules if name in ("triton", "tensorflow")])
"""


def printed(script: str, *arguments: object, folder: Path) -> str:
    """Run a program in a process of its own, and return what it prints."""
    (folder / "program.py").write_text(script)
    words = [sys.executable, "program.py", *map(str, arguments)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ended with {done.returncode}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.long)])
def test_torch_trains_without_tensorflow(flowers: Dataset, start: str, tmp_path: Path) -> None:
    """A process that has TensorFlow loaded dies when PyTorch for CUDA loads Triton, for its first optimizer."""
    assert printed(TRAINS_WITH_TORCH, flowers.directory, start, folder=tmp_path) == "[]\n"


@pytest.mark.parametrize(
    ("installed", "order"),
    [(("triton", "tensorflow"), ["triton", "tensorflow"]), (("tensorflow",), ["tensorflow"])],
    ids=["PyTorch for CUDA", "PyTorch for the CPU"],
)
def test_triton_comes_before_tensorflow(installed: tuple[str, ...], order: list[str], tmp_path: Path) -> None:
    """Where it is installed, and not before TensorFlow is needed. Here by empty modules of these names."""
    if "triton" not in installed and find_spec("triton"):
        pytest.skip("Triton is installed")
    for name in installed:
        (tmp_path / f"{name}.py").write_text("")
    assert printed(RECORDS_THE_ORDER, tmp_path, SUPPORT, folder=tmp_path) == f"{order}\n"


@pytest.mark.long
@pytest.mark.skipif(not find_spec("triton"), reason="Triton is not installed: it comes with PyTorch for CUDA")
def test_both_frameworks_work_in_one_process(tmp_path: Path) -> None:
    printed(f"import sys\nsys.path.insert(0, {str(SUPPORT)!r})\n{USES_BOTH}", folder=tmp_path)
