"""Batches for PyTorch, in one process or in many. Nothing here imports TensorFlow.

    torch_loader, torch_eval_loader, torch_predict_loader       DataLoaders over a split
    random_resized_crop, resize_center_crop, letterbox          transforms of images
    detection, segmentation, Target                             transforms of boxes and masks
    multi_hot, draw_caption                                     transforms of labels and captions
    decode_image, to_device                                     decode a JPEG to a tensor; copy a batch to a device
    Ranks, Workers, TorchLoader, SampleLoader, Collate          processes, workers, and types

The loader's batch sampler is a shardfeed order, its dataset reads a whole batch and decodes it in a worker, and its
state is the order and a step.
"""

from typing import TYPE_CHECKING

from shardfeed.lazy import lazy_names

if TYPE_CHECKING:
    from shardfeed.pipelines.ranks import Ranks as Ranks
    from shardfeed.pipelines.torch.collate import Collate as Collate
    from shardfeed.pipelines.torch.collate import Target as Target
    from shardfeed.pipelines.torch.device import to_device as to_device
    from shardfeed.pipelines.torch.images import decode_image as decode_image
    from shardfeed.pipelines.torch.images import letterbox as letterbox
    from shardfeed.pipelines.torch.images import random_resized_crop as random_resized_crop
    from shardfeed.pipelines.torch.images import resize_center_crop as resize_center_crop
    from shardfeed.pipelines.torch.labels import draw_caption as draw_caption
    from shardfeed.pipelines.torch.labels import multi_hot as multi_hot
    from shardfeed.pipelines.torch.loaders import torch_eval_loader as torch_eval_loader
    from shardfeed.pipelines.torch.loaders import torch_loader as torch_loader
    from shardfeed.pipelines.torch.loaders import torch_predict_loader as torch_predict_loader
    from shardfeed.pipelines.torch.loading import SampleLoader as SampleLoader
    from shardfeed.pipelines.torch.loading import TorchLoader as TorchLoader
    from shardfeed.pipelines.torch.objects import detection as detection
    from shardfeed.pipelines.torch.objects import segmentation as segmentation
    from shardfeed.pipelines.torch.workers import Workers as Workers

__all__, __getattr__, __dir__ = lazy_names(__name__)
