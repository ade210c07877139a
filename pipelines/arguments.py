"""Checks of the arguments of training pipelines, for TensorFlow and for PyTorch."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import Annotated, Any, Literal, TypeVar

import numpy as np

from shardfeed.annotations import OBJECT_LABEL
from shardfeed.declared import check
from shardfeed.errors import UsageError, escape, shown
from shardfeed.pipelines.augment.augmentation import Augmentation
from shardfeed.pipelines.augment.crops import BY_ORDER, Crop, Crops
from shardfeed.pipelines.augment.mixing.mixing import Mixing
from shardfeed.pipelines.augment.operations.random_resized_crop import RandomCrop
from shardfeed.pipelines.orders.order import Order, StoredOrder
from shardfeed.pipelines.orders.shapes import Shape, ShapeOrder, Side
from shardfeed.pipelines.samples import Mixture, Samples, pixel_dtype
from shardfeed.readers.split import Split
from shardfeed.schema import ENCODED, FORMAT, HEIGHT, RESTARTS, WIDTH, Schema
from shardfeed.user_warnings import warn_user

Size = Side | Shape
Channels = Literal[1, 3]
T = TypeVar("T")
S = TypeVar("S", bound=Samples)


# The crop of a batch that has a shape, unless another is given: the largest window of its aspect ratio, at the centre.
WHOLE: Any = {"area": (1.0, 1.0), "aspect_ratio": (1.0, 1.0)}


def image_size(size: Size | None) -> tuple[int, int]:
    """(height, width) in pixels; None: the shape that the order gives each batch."""
    if size is None:
        return BY_ORDER
    height, width = size if isinstance(size, tuple | list) else (size, size)
    return int(height), int(width)


def check_crop(order: Order, crop: Crop, samples: Samples) -> None:
    """Raise UsageError unless a crop fits to the order, and its augmentations to the pixels of the samples."""
    check_size(order, crop)
    if crop.augments:  # else no one reads a column of formats for this
        crop.check_pixels(pixel_dtype(samples))


def check_size(order: Order, crop: Crop) -> None:
    """Raise UsageError unless exactly one of them, the order or the crop, says how large images become."""
    if (crop.target == BY_ORDER) == isinstance(order, ShapeOrder):
        return
    if crop.target == BY_ORDER:
        remedy = "give one, for example 224; a crop takes it, as in letterbox(224)"
        if not isinstance(order, StoredOrder):  # which evaluation has, and no other
            remedy += "; or give order=Global(shapes=...)"
        raise UsageError("image_size", "got none, and all batches of this order are of one size", remedy)
    if isinstance(crop, Crops):
        problem = "got views, which have sizes of their own, and Global(shapes=...) gives each batch its size"
        raise UsageError("views", problem, "leave one of the two out")
    problem = f"got {crop.target[0]} x {crop.target[1]} pixels, and Global(shapes=...) gives each batch its own size"
    raise UsageError("image_size", problem, "leave the size out, also of a crop, as in letterbox()")


Views = Annotated[Sequence[RandomCrop] | None, "for example views=[crop(224), crop(224), crop(96, area=(0.05, 0.3))]"]


def check_augment(name: str, augment: Any) -> None:
    """Raise UsageError, with what to type, unless these are augmentations."""
    try:
        check(name, augment, Sequence[Augmentation])
    except UsageError as error:
        raise UsageError(name, error.problem, _augment_remedy(augment)) from None


def _augment_remedy(augment: Any) -> str:
    """The remedy for something that is no list of augmentations."""
    each = augment if isinstance(augment, list | tuple) else [augment]
    if any(isinstance(value, Crop) for value in each):
        return "give crops as views="
    if isinstance(augment, str):
        return "give the list itself, as in augment=recipes.simclr of shardfeed.pipelines.augment"
    if isinstance(augment, Augmentation | Iterator):
        return "give a list, as in augment=[...]"
    if any(isinstance(value, Mixing) for value in each):
        return "give what mixes batches as batch_transform="
    if any(isinstance(value, list | tuple) for value in each):
        return "join lists, as in augment=[*recipes.simclr, erasing()]"
    return "for example augment=[color_jitter(0.4, 0.4, 0.4), grayscale()] of shardfeed.pipelines.augment"


Augment = Annotated[Sequence[Augmentation], check_augment]


def views_crop(views: Sequence[RandomCrop], augment: Sequence[Augmentation], **others: Any) -> Crops:
    """The crop to several views. Raises UsageError if there is none, or if one of the others is given, too."""
    if augment:
        problem = "got views, too, and each view has augmentations of its own"
        raise UsageError("augment", problem, "give them to each, as in views=[crop(224, augment=[...]), ...]")
    also = next((name for name, given in others.items() if given), None)
    if also or not views:
        problem = f"got {also}, too, which is for one view" if also else "got no view"
        raise UsageError("views", problem, f"leave {also or 'it'} out")
    return Crops(tuple(views))


def check_record(name: str, record: Any) -> None:
    """Raise UsageError unless it is the record of a sample with an image."""
    if not isinstance(record, Mapping):
        raise UsageError(name, f"got {shown(record)}, expected a record", "give one of split[i]")
    encoded = record.get(ENCODED)
    if not isinstance(encoded, bytes | bytearray | memoryview):
        problem = f"got {shown(encoded)} as its {ENCODED!r}, expected the bytes of an image"
        raise UsageError(name, problem, "give one of split[i]")


ImageRecord = Annotated[Mapping[str, Any], check_record]


def takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function accepts this number of arguments; True if its signature is unknown."""
    called = getattr(function, "forward", function)  # of PyTorch's modules, as their __call__ takes anything
    try:
        inspect.signature(called).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # of C code
        pass
    return True


def is_factory(given: Any) -> bool:
    """Whether it is a function such as `mixup`, which makes an augmentation or a mixing."""
    module = getattr(given, "__module__", None) or ""  # None for a function of `exec` and of some notebooks
    return inspect.isfunction(given) and module.startswith("shardfeed.pipelines.augment.")


def check_function(place: str, given: Any, *arguments: str, remedy: str = "") -> None:
    """Raise UsageError unless `given` can be called with these arguments, and is no class of transforms.

    None: not provided.

    `place`: the option that it was given as. `remedy`: for what is neither a class nor a function that makes a
    transform of ours.
    """
    is_class = isinstance(given, type) and given not in (list, tuple)  # which make a batch of samples
    makes_one = is_class or is_factory(given)
    if given is None or (callable(given) and not makes_one and takes(given, len(arguments))):
        return
    if makes_one:
        remedy = f"call it, as in {place}={given.__name__}()"
    problem = f"got {shown(given)}, expected a function: {place}({', '.join(arguments)})"
    raise UsageError(place, problem, remedy)


def check_transforms(transform: Any, batch_transform: Any) -> None:
    """Raise UsageError unless each function accepts features, or a batch, and a seed. None: not provided."""
    check_function("transform", transform, "features", "seed")
    check_function("batch_transform", batch_transform, "batch", "seed")


def check_shared_batch(batch_size: int, replicas: int, name: str = "replicas") -> None:
    """Raise UsageError, with the nearest sizes that fit, unless a global batch divides evenly among replicas."""
    if batch_size % replicas:
        below = batch_size // replicas * replicas
        remedy = f"use {below} or {below + replicas}" if below else f"use {replicas}"
        raise UsageError("batch_size", f"got {batch_size}, expected a multiple of the {replicas} {name}", remedy)


def with_augment(place: str, transform: T, augment: Sequence[Augmentation]) -> T:
    """A transform of this package whose crop is followed by augmentations; unchanged without any.

    `place`: the argument that it was given as. Raises UsageError for other transforms, which make images themselves,
    and for a crop that has augmentations of its own.
    """
    if transform is None or not augment:
        return transform
    made: Any = transform
    image: Any = getattr(made, "image", None)
    crop: Any = getattr(image, "crop", None)
    if not (isinstance(crop, Crop) and _takes_image(made, image)):
        problem = f"got it with {place}={shown(transform)}, which makes the images itself"
        raise UsageError("augment", problem, f"give image_size= instead of {place}=, or change the images in yours")
    if crop.augments:
        problem = f"got it, and the crop of {place}= has augmentations of its own"
        raise UsageError("augment", problem, "give all of them in one place: to the crop, or to the loader")
    augmented = image.augmented(augment)
    return augmented if image is made else replace(made, image=augmented)


def _takes_image(transform: Any, image: Any) -> bool:
    """Whether a transform can be made with another image transform in place of its own `image`."""
    return image is transform or is_dataclass(transform)


def image_or_transform(
    samples: S,
    image_size: Size | None,
    transform: T | None,
    labelled: Callable[[Size | None], T],
    label: str | None,
    *,
    sized: bool = False,
) -> tuple[S, list[str] | None, T]:
    """Return the samples, the features to parse (None: all) and the transform.

    The transform is `labelled(image_size)`, to image and label, for the samples with a label, or to the image if
    `label` is None; or the caller's, for all samples. `sized`: whether the order gives each batch its size; then both
    may be None.

    Raises UsageError unless exactly one of the two is given, and unless `label` is one number per record, or tags.
    """
    if transform is None and (image_size is not None or sized):
        return *images_and_labels(samples, label), labelled(image_size)
    if transform is not None and image_size is None:
        return samples, None, transform
    raise UsageError("image_size, transform", "expected exactly one of them")


def images_and_labels(samples: S, label: str | None, *, texts: bool = False) -> tuple[S, list[str]]:
    """Return the samples with a label, and the features that `labelled` needs. None: all samples, and their images.

    With `texts`, `label` may also be bytes, and all samples are kept.

    Raises UsageError as `image_and_label_keys` does.
    """
    if label is None:
        return samples, image_keys(samples.schema)
    keys = image_and_label_keys(samples.schema, label, texts=texts)
    made: Any = samples
    if texts:
        return samples, keys
    if isinstance(samples, Mixture):
        made = replace(samples, parts=tuple(_with_number(part, label) for part in samples.parts))
    elif isinstance(samples, Split):
        made = _with_number(samples, label)
    return made, keys


def _with_number(split: Split, label: str) -> Split:
    """Select the samples whose `label` is not NaN, which marks a missing number; a warning counts the others.

    Raises UsageError if no sample has a number.
    """
    if split.schema.features[split.schema.key(label) or label].dtype != "float32" or not len(split):
        return split
    known = ~np.isnan(split.column(label))
    if known.all():
        return split
    problem = f"{np.sum(~known)} of {len(split)} samples of split {split.name} have no number in {escape(label)}"
    if not known.any():
        raise UsageError("label", problem, "give the key of another feature")
    warn_user(f"left out: {problem}", RuntimeWarning)
    return split.select(known)


def image_and_label_keys(schema: Schema, label: str, *, texts: bool = False) -> list[str]:
    """The features that `labelled` needs. Raises UsageError without an image, or unless `label` is one number or tags.

    With `texts`, `label` may also be bytes. Both features may be found by an alias.
    """
    scalars = {key: feature for key, feature in schema.features.items() if feature.scalar}
    passed = {ENCODED, FORMAT, RESTARTS} if texts else {key for key in scalars if scalars[key].dtype == "bytes"}
    usable = [*(scalars.keys() - passed), *schema.of_kind("tags")]
    if schema.key(label) not in usable:
        raise _no_label(schema, label, usable, texts=texts)
    return sorted({*image_keys(schema), label})


def _no_label(schema: Schema, label: str, usable: list[str], *, texts: bool) -> UsageError:
    """The error for a `label` that is not one of the `usable` keys."""
    if not texts and not set(usable) - {HEIGHT, WIDTH} and not schema.of_kind("label"):
        remedy = "label=None gives only images; predict_batches and torch_predict_loader give them with their names"
        return UsageError("label", "this dataset has no label", remedy)
    place, what = ("key", "value") if texts else ("label", "number")
    problem = f"got {shown(label)}, expected a feature with one {what} per record, or tags"
    remedy = f"there is {', '.join(map(repr, sorted(usable))) or 'none'}"
    if schema.key(OBJECT_LABEL) is not None:
        remedy += "; docs/train-objects.md shows batches with boxes"
    if schema.key(label) in schema.of_kind("label"):  # written before tags existed, or by other programs
        remedy = "use multi_hot in your own transform to make a vector of its classes"
    return UsageError(place, problem, remedy)


def image_keys(schema: Schema) -> list[str]:
    """The features that an image needs. Raises UsageError unless each record has one image, perhaps by an alias."""
    check_image_feature(schema)
    return sorted({ENCODED} | ({FORMAT} & schema.features.keys()))


def check_image_feature(schema: Schema) -> None:
    """Raise UsageError unless each record has one image, perhaps by an alias."""
    image = schema.key(ENCODED)
    if image is None or not schema.features[image].scalar or schema.kind(image) != "image":
        found = [key for key, feature in schema.features.items() if feature.dtype == "bytes" and feature.scalar]
        problem = f"the records have no {ENCODED!r}, one image each" if image is None else f"{image!r} is not an image"
        remedy = "adopt them with `shardfeed adopt DIR OUT --image-key KEY`, or use your own transform"
        raise UsageError(
            "image", f"{problem}; features with bytes: {', '.join(map(repr, sorted(found))) or 'none'}", remedy
        )


def tag_count(schema: Schema, label: str) -> int | None:
    """Number of classes, if `label` holds a set of classes; None if it holds one number.

    Raises UsageError if the class names, and so their number, are unknown.
    """
    key = schema.key(label) or label
    if key not in schema.of_kind("tags"):
        return None
    names = schema.class_names.get(key, ())
    if not names:
        raise UsageError("label", f"{escape(key)} has no class names", "give multi_hot the number of classes")
    return len(names)
