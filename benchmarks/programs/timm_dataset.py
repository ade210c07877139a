# /// script
# dependencies = ["timm==1.0.31", "torch==2.13.0", "torchvision==0.28.0", "tensorflow==2.21.0",
#   "tensorflow-datasets==4.9.10", "importlib_resources"]
# ///
"""timm, which reads by TFDS."""

from program import Data, check, main, without_operators


@check(
    "timm",
    "timm",
    "create_dataset('tfds/photos', root='ROOT', split='train', input_key='image/encoded', "
    "target_key='image/class/label')",
    "after `shardfeed convert SOURCE ROOT/photos/1.0.0`",
)
def dataset(data: Data) -> None:
    without_operators()
    from timm.data import create_dataset

    made = create_dataset(
        "tfds/photos",
        root=str(data.root),
        split="train",
        batch_size=1,
        input_key="image/encoded",
        target_key="image/class/label",
    )
    data.compare("train", [int(label) for _, label in made], "label")


if __name__ == "__main__":
    main()
