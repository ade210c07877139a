"""Pascal VOC: one XML file an image, as the devkit, LabelImg, CVAT and Roboflow write it."""

from shardfeed.converters.sources.annotations.voc.reader import read as read
from shardfeed.converters.sources.annotations.voc.reader import recognise as recognise
