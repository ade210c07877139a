"""TFRecord: framed records of tf.train.Example, with an index of their offsets."""
