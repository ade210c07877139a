# /// script
# dependencies = ["shardfeed[torch]", "torch==2.13.0", "torchvision==0.28.0", "albumentations==2.0.8"]
# ///
"""Transforms of others in our loader: torchvision v2 and albumentations, as they are."""

import torch
from program import Data, check, main, without_operators

import shardfeed
from shardfeed.pipelines.torch import torch_loader


def same_again(data: Data, transform) -> None:
    """With other numbers of workers, and resumed, the same pixels; the labels are those of the dataset."""
    split = shardfeed.open(data.folder())["train"]

    def loader(workers, **options):
        return torch_loader(split, batch_size=8, image_transform=transform, seed=3, workers=workers, **options)

    first, second = list(loader(0)), list(loader(2))
    resumed = loader(1)
    resumed.load_state_dict(loader(0).state_dict(step=5))
    third = list(resumed)
    assert len(first) == len(second) == len(third) + 5
    for one, other in [*zip(first, second, strict=True), *zip(first[5:], third, strict=True)]:
        assert torch.equal(one[0], other[0])
        assert torch.equal(one[1], other[1])
    assert len({image.numpy().tobytes() for images, _ in first for image in images}) == len(split)
    data.compare("train", [label for _, labels in first for label in labels.tolist()], "label")


@check("torchvision v2", "torchvision", "torch_loader(..., image_transform=v2.Compose([...]))", "exact when resumed")
def torchvision(data: Data) -> None:
    without_operators()
    from torchvision.transforms import v2

    same_again(
        data,
        v2.Compose(
            [
                v2.ToImage(),
                v2.RandomResizedCrop(32, antialias=True),
                v2.RandomHorizontalFlip(),
                v2.ColorJitter(0.3, 0.3, 0.3),
                v2.RandAugment(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize([0.5] * 3, [0.25] * 3),
            ]
        ),
    )


@check("albumentations", "albumentations", "torch_loader(..., image_transform=A.Compose([...]))", "exact when resumed")
def albumentations(data: Data) -> None:
    import albumentations as A

    same_again(
        data, A.Compose([A.RandomResizedCrop((32, 32)), A.HorizontalFlip(), A.ColorJitter(), A.GaussNoise(p=1.0)])
    )


if __name__ == "__main__":
    main()
