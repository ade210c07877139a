"""Files of annotation tools: LabelMe, VIA, Label Studio, CVAT, Create ML, Supervisely, FiftyOne; one module a tool."""
