"""The kernel that edits batches: by Triton's interpreter (`make kernel`), or on a GPU if there is one."""

import os

import numpy as np
import pytest
import torch
from edit_cases import KINDS, by_numpy, some_edits

from shardfeed.pipelines.augment.edits import Edit

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not INTERPRETED and not torch.cuda.is_available():
    pytest.skip("TRITON_INTERPRET=1 is not set, and no GPU is visible", allow_module_level=True)
pytest.importorskip("triton", reason="Triton takes 1 GB; `make kernel` runs this file where it is installed")

from shardfeed.pipelines.torch.edit_kernel import edit_with_kernel  # noqa: E402  # it needs Triton

DEVICE = "cpu" if INTERPRETED else "cuda"
SIZES = [(1, 1), (1, 9), (7, 1), (2, 3), (16, 32), (17, 33), (40, 40)]


def check(kinds: np.ndarray, seed: int, height: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256 // rng.integers(1, 9), (len(kinds), height, width, 3), dtype=np.uint8)
    edits = some_edits(kinds, rng, height, width)
    made = edit_with_kernel(torch.from_numpy(images).to(DEVICE).permute(0, 3, 1, 2), edits).permute(0, 2, 3, 1)
    np.testing.assert_array_equal(made.cpu().numpy(), by_numpy(images, edits))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_kind(kind: Edit) -> None:
    for seed, (height, width) in enumerate(SIZES):
        check(np.array([[kind], [Edit.NONE], [kind], [kind]]), seed, height, width)


def test_several_in_turn() -> None:
    for seed in range(6):
        check(np.random.default_rng(seed).choice([*Edit], (4, 5)), seed, 24, 24)
