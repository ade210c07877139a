"""Files of arrays: NumPy's, HDF5, MNIST's IDX, the binary versions of CIFAR and STL-10. Pixels become PNGs.

`source` finds the arrays of images and labels and makes samples, `raw_arrays` reads arrays that are stored plainly in a
file, `pixels` makes images of arrays, `labels` makes classes.
"""
