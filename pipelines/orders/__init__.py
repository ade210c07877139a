"""Which sample comes when: arithmetic, without TensorFlow."""
