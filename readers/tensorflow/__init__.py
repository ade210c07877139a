"""Records as tf.data: in sequence, or by position."""
