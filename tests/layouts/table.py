"""All layouts, in the order of the page."""

from tests.layouts import (
    annotation_tools,
    archives,
    arrays,
    box_tables,
    class_folders,
    detection,
    label_files,
    segmentation,
    shards,
    texts,
)

_IMAGES = (class_folders, label_files, detection, box_tables, annotation_tools, segmentation, texts)
_PACKED = (archives, shards, arrays)
TOPICS = [module.TOPIC for module in (*_IMAGES, *_PACKED)]
LAYOUTS = [layout for topic in TOPICS for layout in topic.layouts]
