"""Files of annotation tools: LabelMe, VIA, Label Studio, CVAT, Supervisely, FiftyOne; one module a tool."""
