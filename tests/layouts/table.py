"""All layouts, in the order of the page."""

from tests.layouts import annotation_tools, box_tables, class_folders, detection, label_files, segmentation, texts

TOPICS = [
    module.TOPIC
    for module in (class_folders, label_files, detection, box_tables, annotation_tools, segmentation, texts)
]
LAYOUTS = [layout for topic in TOPICS for layout in topic.layouts]
