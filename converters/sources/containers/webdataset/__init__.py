"""WebDataset: tars in which files that differ only in what follows their first dot are one sample.

cats/0001.jpg   the image of the sample cats/0001
cats/0001.cls   its class, ASCII digits
cats/0001.json  more about it
"""
