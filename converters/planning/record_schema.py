"""What the records of a conversion will hold, and whether that goes with how their images are stored."""

from dataclasses import replace

from shardfeed.annotations import OBJECT_AREA
from shardfeed.converters.images.options import ImageOptions
from shardfeed.converters.planning.options import PlanOptions
from shardfeed.converters.sources.records import RecordedSource
from shardfeed.converters.sources.source import Source
from shardfeed.errors import UsageError, argument, escape
from shardfeed.schema import RESTARTS, Schema, image_features


def schema_of(source: Source, options: PlanOptions) -> Schema:
    """The schema of the records that `source` gives with `options`.

    Raises UsageError for a key that the conversion writes itself, and for features that its images would not fit.
    """
    if options.onto is not None:
        return options.onto.schema
    if isinstance(source, RecordedSource):
        return source.schema.stated()
    images = image_features(sha256=options.sha256, restarts=options.image.restarts)
    own = source.schema
    for key in own.features:
        if key in {*images, RESTARTS}:
            raise UsageError(
                f"source.schema.features[{key!r}]", "this key is written by the conversion itself", "rename it"
            )
    schema = replace(own, features=images | dict(own.features)).stated()
    _check_images(schema, options.image)
    return schema


def _check_images(schema: Schema, image: ImageOptions) -> None:
    """Raises UsageError where images are to be cut or shrunk and features mean places or pixels in them."""
    places = schema.of_kind("place")
    if image.shape is not None and places:
        problem = f"the middle of each image is cut out, and {escape(places[0])} would mean other places"
        remedy = f"use {argument('resize_shorter')}, which cuts nothing, or leave that label out"
        raise UsageError("size", problem, remedy)
    if image.resize_shorter is not None and OBJECT_AREA in schema.features and not schema.object_keys:
        problem = f"{OBJECT_AREA} counts pixels of the images as they are, and would be wrong of smaller ones"
        raise UsageError("resize_shorter", problem, "leave that label out: the boxes, shares of the image, give it")
