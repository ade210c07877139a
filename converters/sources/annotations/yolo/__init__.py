"""Datasets as YOLO's tools have them: Ultralytics' data.yaml, Roboflow's exports, Darknet, LabelImg's folders."""
