"""Orders of samples, computed by arithmetic, without TensorFlow."""
