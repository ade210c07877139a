"""Files of arrays: NumPy's, HDF5, MNIST's IDX, the binary versions of CIFAR and STL-10. Pixels become PNGs.

`source` finds which array holds the images and which their labels and makes samples, `raw_arrays` reads those that lie
in a file as they are, `pixels` makes images of them, `labels` classes.
"""
