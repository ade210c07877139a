"""`MDSWriter` and `merge_index` of Mosaic Streaming, also where torchvision, which it imports, does not load.

torchvision is built for one build of PyTorch. Mosaic imports two names of it, for datasets that no writer uses; empty
classes take their place.
"""

import importlib
import importlib.machinery
import sys
import types
from typing import Any

_NEEDED = (
    ("torchvision", None),
    ("torchvision.datasets", "VisionDataset"),
    ("torchvision.transforms", None),
    ("torchvision.transforms.functional", "to_tensor"),
)


def _stand_in_for_torchvision() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]
    for name, attribute in _NEEDED:
        module = types.ModuleType(name)
        module.__path__ = []
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        if attribute:
            setattr(module, attribute, type(attribute, (), {}))
        sys.modules[name] = module


def _imported() -> tuple[Any, Any]:
    try:
        importlib.import_module("torchvision.transforms.functional")
    except (ImportError, RuntimeError, OSError, AttributeError):  # ops of another build are missed in various ways
        _stand_in_for_torchvision()
    from streaming import MDSWriter
    from streaming.base.util import merge_index

    return MDSWriter, merge_index


MDSWriter, merge_index = _imported()
