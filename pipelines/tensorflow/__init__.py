"""Records in, tf.data batches on devices out."""
