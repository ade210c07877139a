"""Decoding of images without a framework: in PyTorch's workers, and in threads that make TensorFlow's batches."""
