"""Datasets of YOLO's tools: Ultralytics' data.yaml, Roboflow's exports, Darknet, LabelImg's folders."""
