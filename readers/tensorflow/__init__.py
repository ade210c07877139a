"""tf.data datasets of records, read in sequence or by number."""
