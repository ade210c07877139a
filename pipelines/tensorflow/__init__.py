"""tf.data pipelines: from records to batches on devices."""
