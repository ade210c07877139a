"""Load Triton before TensorFlow in a test process that has both. Triton comes with PyTorch for CUDA.

TensorFlow makes the names of the LLVM inside it visible to every library that is loaded later. Triton's library has
another version of LLVM inside; loaded later, it uses some 15,000 functions of TensorFlow's instead, and dies of a
segmentation fault. PyTorch loads Triton late, for the first optimizer or for `torch._dynamo`, so it does not help to
import torch first. In the other order each has its own, as Python keeps the names of an extension module to itself.
"""

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _BeforeTensorFlow(MetaPathFinder):
    """Finds nothing; imports Triton when TensorFlow is asked for."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name == "tensorflow":
            sys.meta_path.remove(self)
            if importlib.util.find_spec("triton"):
                importlib.import_module("triton")
        return None


def load_triton_before_tensorflow() -> None:
    """Have the first import of TensorFlow in this process import Triton before, where Triton is installed."""
    sys.meta_path.insert(0, _BeforeTensorFlow())
