"""Sources of images with annotations beside them: files of COCO, YOLO, VOC, tables, masks, captions."""
