"""Record files of other programs (TFRecord, ArrayRecord, MDS), and recognition of their features."""
