"""Datasets as YOLO's tools have them: Ultralytics' data.yaml, Roboflow's exports, Darknet, LabelImg's folders."""

from shardfeed.converters.sources.annotations.yolo.reader import read as read
from shardfeed.converters.sources.annotations.yolo.recognise import recognise as recognise
