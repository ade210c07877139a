"""All layouts, in the order of the page."""

from tests.layouts import (
    annotation_tools,
    archives,
    arrays,
    box_tables,
    class_folders,
    databases,
    detection,
    json_exports,
    label_files,
    official_lists,
    segmentation,
    shards,
    texts,
)

_FILES = (class_folders, label_files, official_lists, detection, box_tables, annotation_tools, json_exports)
_OTHERS = (segmentation, texts, archives, shards, databases, arrays)
TOPICS = [module.TOPIC for module in (*_FILES, *_OTHERS)]
LAYOUTS = [layout for topic in TOPICS for layout in topic.layouts]
