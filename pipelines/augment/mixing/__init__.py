"""Mixing the samples of a batch: what is drawn, and the arithmetic in NumPy, PyTorch and TensorFlow."""
