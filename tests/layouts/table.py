"""All layouts, in the order of the page."""

from tests.layouts import class_folders, detection, label_files

TOPICS = [module.TOPIC for module in (class_folders, label_files, detection)]
LAYOUTS = [layout for topic in TOPICS for layout in topic.layouts]
