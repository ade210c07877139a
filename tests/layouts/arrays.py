"""Images in arrays, in the cells of tables, and in the binary files of small benchmarks."""

import gzip
import io
import pickle
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.layouts.files import Files, grays
from tests.layouts.layout import Gives, Topic
from tests.layouts.matlab import mat_file

TOPIC = Topic("Arrays")
DIGITS = Gives("train 4, test 2", {"0", "1"}, gray={10: "0", 20: "1", 40: "1", 60: "1"})
TRAIN, LABELS, TEST, TEST_LABELS = (10, 20, 30, 40), (0, 1, 0, 1), (50, 60), (0, 1)


def idx(values: Any) -> bytes:
    """MNIST's format."""
    array = np.asarray(values, np.uint8)
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def _mnist(to: Files, folder: str, prefix: str = "", end: str = "") -> None:
    for split, pixels, labels in (("train", TRAIN, LABELS), (f"{'test' if prefix else 't10k'}", TEST, TEST_LABELS)):
        images, numbers = idx(grays(pixels, 28, 28)), idx(labels)
        for what, data in (("images-idx3-ubyte", images), ("labels-idx1-ubyte", numbers)):
            to.put(f"{folder}/{prefix}{split}-{what}{end}", gzip.compress(data, mtime=0) if end else data)


@TOPIC.layout("MNIST, Fashion-MNIST: four `.gz` files", "convert mnist out", DIGITS)
def mnist(to: Files) -> None:
    _mnist(to, "mnist", end=".gz")


@TOPIC.layout("MNIST: the four files, decompressed", "convert mnist out", DIGITS)
def mnist_unpacked(to: Files) -> None:
    _mnist(to, "mnist")


@TOPIC.layout(
    "torchvision's `MNIST/raw`, with compressed and decompressed files side by side", "convert MNIST/raw out", DIGITS
)
def mnist_raw(to: Files) -> None:
    _mnist(to, "MNIST/raw")
    _mnist(to, "MNIST/raw", end=".gz")


@TOPIC.layout("torchvision's `MNIST`, the parent folder of `raw`", "convert MNIST out", DIGITS)
def mnist_above_raw(to: Files) -> None:
    mnist_raw(to)


@TOPIC.layout(
    "EMNIST: `emnist-letters-train-images-idx3-ubyte.gz`, labels from 1",
    "convert emnist out",
    Gives("train 4, test 2", {"A", "B"}, gray={10: "A", 20: "B"}),
    says="--label-offset",
    then="convert emnist out --label-offset 1 --class-names letters.txt",
)
def emnist_letters(to: Files) -> None:
    for split, pixels, labels in (("train", TRAIN, (1, 2, 1, 2)), ("test", TEST, (1, 2))):
        for what, data in (("images-idx3-ubyte", idx(grays(pixels, 28, 28))), ("labels-idx1-ubyte", idx(labels))):
            to.put(f"emnist/emnist-letters-{split}-{what}.gz", gzip.compress(data, mtime=0))
    to.put("letters.txt", "A\nB")


@TOPIC.layout(
    "EMNIST as downloaded: with `emnist-letters-mapping.txt`, one line per label with the codes of its letters",
    "convert emnist out",
    Gives("train 4, test 2", {"A", "B"}, gray={10: "A", 20: "B"}),
)
def emnist_mapping(to: Files) -> None:
    emnist_letters(to)
    to.put("emnist/emnist-letters-mapping.txt", "1 65 97\n2 66 98\n")


@TOPIC.layout(
    "EMNIST's digits, from 0", "convert emnist out", Gives("train 4, test 2", {"0", "1"}, gray={10: "0", 20: "1"})
)
def emnist_digits(to: Files) -> None:
    _mnist(to, "emnist", "emnist-digits-", ".gz")


@TOPIC.layout(
    "Kuzushiji-MNIST: `kmnist-train-imgs.npz`, `kmnist-train-labels.npz` and so on, each with `arr_0`",
    "convert kmnist out",
    DIGITS,
)
def kmnist(to: Files) -> None:
    for split, pixels, labels in (("train", TRAIN, LABELS), ("test", TEST, TEST_LABELS)):
        to.put(f"kmnist/kmnist-{split}-imgs.npz", npz(arr_0=grays(pixels, 28, 28)))
        to.put(f"kmnist/kmnist-{split}-labels.npz", npz(arr_0=np.array(labels, np.uint8)))


def npz(**arrays: np.ndarray) -> bytes:
    """An archive of these arrays."""
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


@TOPIC.layout("Keras' `mnist.npz`: `x_train`, `y_train`, `x_test`, `y_test`", "convert mnist.npz out", DIGITS)
def keras_npz(to: Files) -> None:
    arrays = {"x_train": grays(TRAIN, 28, 28), "x_test": grays(TEST, 28, 28)}
    to.put("mnist.npz", npz(**arrays, y_train=np.array(LABELS), y_test=np.array(TEST_LABELS)))


@TOPIC.layout(
    "MedMNIST: `pathmnist.npz`, `train_images`, `train_labels` with one column",
    "convert pathmnist.npz out",
    Gives("train 4, validation 2, test 2", {"0", "1"}, gray={20: "1"}),
)
def medmnist(to: Files) -> None:
    arrays = {}
    for split, pixels, labels in (("train", TRAIN, LABELS), ("val", (70, 80), (0, 1)), ("test", TEST, TEST_LABELS)):
        arrays[f"{split}_images"] = grays(pixels, 28, 28, 3)
        arrays[f"{split}_labels"] = np.array(labels, np.uint8)[:, None]
    to.put("pathmnist.npz", npz(**arrays))


@TOPIC.layout(
    "MedMNIST's ChestMNIST: `train_labels` with a 0/1 column for each finding",
    "convert chestmnist.npz out",
    Gives("train 4", {"0", "1", "2"}, gray={10: "0"}),
)
def chestmnist(to: Files) -> None:
    labels = np.array([[1, 0, 0], [0, 1, 1], [0, 0, 0], [0, 0, 1]], np.uint8)
    to.put("chestmnist.npz", npz(train_images=grays(TRAIN, 28, 28), train_labels=labels))


@TOPIC.layout("a folder of `.npy`: `x_train.npy`, `y_train.npy`", "convert arrays out", Gives("train 4", {"0", "1"}))
def npy_folder(to: Files) -> None:
    for name, array in (("x_train", grays(TRAIN, 32, 32, 3)), ("y_train", np.array(LABELS))):
        out = io.BytesIO()
        np.save(out, array)
        to.put(f"arrays/{name}.npy", out.getvalue())


@TOPIC.layout(
    "images and labels in arrays with other names: `images.npy`, `labels.npy`",
    "convert arrays out",
    Gives("train 4", {"0", "1"}, gray={20: "1"}),
)
def npy_pair(to: Files) -> None:
    for name, array in (("images", grays(TRAIN, 32, 32, 3)), ("labels", np.array(LABELS))):
        out = io.BytesIO()
        np.save(out, array)
        to.put(f"arrays/{name}.npy", out.getvalue())


@TOPIC.layout("pixels as floats from 0 to 1 in a `.npz`", "convert floats.npz out", says="uint8")
def float_pixels(to: Files) -> None:
    to.put("floats.npz", npz(x_train=grays(TRAIN, 28, 28) / np.float32(255), y_train=np.array(LABELS)))


@TOPIC.layout("arrays of Python objects (a pickle)", "convert objects.npz out", says="pickle")
def object_arrays(to: Files) -> None:
    images = np.empty(2, object)
    images[:] = [np.zeros((3, 3, 3), np.uint8), np.zeros((4, 4, 3), np.uint8)]
    to.put("objects.npz", npz(images=images, labels=np.array([0, 1])))


def _cifar(to: Files, path: str, pixels: Sequence[int], labels: Sequence[tuple[int, ...]]) -> None:
    to.put(path, b"".join(bytes(label) + bytes([gray]) * 3072 for gray, label in zip(pixels, labels, strict=True)))


@TOPIC.layout(
    "CIFAR-10, the binary version: `data_batch_1.bin`, `test_batch.bin`, `batches.meta.txt`",
    "convert cifar-10-batches-bin out",
    Gives("train 4, test 2", ("airplane", "automobile"), gray={10: "airplane", 20: "automobile"}),
)
def cifar_10(to: Files) -> None:
    root = "cifar-10-batches-bin"
    _cifar(to, f"{root}/data_batch_1.bin", TRAIN[:2], [(0,), (1,)])
    _cifar(to, f"{root}/data_batch_2.bin", TRAIN[2:], [(0,), (1,)])
    _cifar(to, f"{root}/test_batch.bin", TEST, [(0,), (1,)])
    to.put(f"{root}/batches.meta.txt", "airplane\nautomobile\n")
    to.put(f"{root}/readme.html", "<html></html>")


@TOPIC.layout(
    "CIFAR-100, the binary version: two labels per image",
    "convert cifar-100-binary out",
    Gives("train 2, test 1", ("apple", "aquarium_fish"), gray={10: "apple", 20: "aquarium_fish"}),
)
def cifar_100(to: Files) -> None:
    _cifar(to, "cifar-100-binary/train.bin", TRAIN[:2], [(1, 0), (0, 1)])
    _cifar(to, "cifar-100-binary/test.bin", TEST[:1], [(0, 1)])
    to.put("cifar-100-binary/fine_label_names.txt", "apple\naquarium_fish")
    to.put("cifar-100-binary/coarse_label_names.txt", "fish\nfruit")


@TOPIC.layout('CIFAR-10\'s "python version": pickles', "convert cifar-10-batches-py out", says=("pickle", "binary"))
def cifar_pickles(to: Files) -> None:
    batch = {b"data": grays(TRAIN, 3072), b"labels": list(LABELS)}
    for name in ("data_batch_1", "test_batch"):
        to.put(f"cifar-10-batches-py/{name}", pickle.dumps(batch))
    to.put("cifar-10-batches-py/batches.meta", pickle.dumps({"label_names": ["airplane", "automobile"]}))


@TOPIC.layout(
    "STL-10: `train_X.bin`, `train_y.bin`, `unlabeled_X.bin`, `class_names.txt`",
    "convert stl10_binary out",
    Gives("train 2, test 2", ("airplane", "bird"), gray={10: "airplane", 20: "bird"}),
)
def stl10(to: Files) -> None:
    for split, pixels in (("train", TRAIN[:2]), ("test", TEST)):
        to.put(f"stl10_binary/{split}_X.bin", grays(pixels, 3 * 96 * 96).tobytes())
        to.put(f"stl10_binary/{split}_y.bin", bytes([1, 2]))
    to.put("stl10_binary/unlabeled_X.bin", grays((99,), 3 * 96 * 96).tobytes())
    to.put("stl10_binary/class_names.txt", "airplane\nbird")
    to.put("stl10_binary/fold_indices.txt", "0 1")


@TOPIC.layout(
    "Kaggle's Digit Recognizer: `label,pixel0,...,pixel783`",
    "convert train.csv out",
    Gives("train 4", {"0", "1"}, gray={10: "0", 20: "1", 40: "1"}),
)
def digit_recognizer(to: Files) -> None:
    header = ",".join(["label", *(f"pixel{number}" for number in range(784))])
    lines = [",".join(map(str, [label, *[gray] * 784])) for label, gray in zip(LABELS, TRAIN, strict=True)]
    to.put("train.csv", "\n".join([header, *lines]))


@TOPIC.layout(
    "Kaggle's Digit Recognizer, `test.csv`: only pixels",
    "convert test.csv out --unlabelled",
    Gives("test 2", gray={50: None}),
)
def digit_recognizer_test(to: Files) -> None:
    header = ",".join(f"pixel{number}" for number in range(784))
    to.put("test.csv", "\n".join([header, *(",".join([str(gray)] * 784) for gray in TEST)]))


@TOPIC.layout(
    "Kaggle's Sign Language MNIST: `sign_mnist_train.csv`, `sign_mnist_test.csv` in a folder, `pixel1` to `pixel784`",
    "convert sign out",
    Gives("train 4, test 2", {"0", "1"}, gray={10: "0", 20: "1"}),
)
def sign_language(to: Files) -> None:
    header = ",".join(["label", *(f"pixel{number}" for number in range(1, 785))])
    for split, labels, pixels in (("train", LABELS, TRAIN), ("test", TEST_LABELS, TEST)):
        lines = [",".join(map(str, [label, *[gray] * 784])) for label, gray in zip(labels, pixels, strict=True)]
        to.put(f"sign/sign_mnist_{split}.csv", "\n".join([header, *lines]))


@TOPIC.layout(
    "FER2013: `emotion,pixels,Usage`, 48 x 48 numbers per cell",
    "convert fer2013.csv out --split-column Usage",
    Gives("train 2, PublicTest 1, PrivateTest 1", {"0", "1"}, gray={10: "0", 20: "1"}),
)
def fer2013(to: Files) -> None:
    lines = ["emotion,pixels,Usage"]
    for gray, label, usage in zip(TRAIN, LABELS, ("Training", "Training", "PublicTest", "PrivateTest"), strict=True):
        lines.append(f"{label},{' '.join([str(gray)] * 2304)},{usage}")
    to.put("fer2013.csv", "\n".join(lines))


@TOPIC.layout(
    "SVHN, cropped: `train_32x32.mat`, `test_32x32.mat`, `X` and `y`, with the label 10 for the digit 0",
    "convert svhn out",
    Gives("train 4, test 2", {"1", "2"}, gray={10: "1", 20: "2"}),
    says="--label-offset",
    then="convert svhn out --label-offset 1 --class-names digits.txt",
    needs="scipy",
)
def svhn(to: Files) -> None:
    to.put("digits.txt", "1\n2")
    for split, pixels, labels in (("train", TRAIN, (1, 2, 1, 2)), ("test", TEST, (1, 2))):
        images = grays(pixels, 32, 32, 3).transpose(1, 2, 3, 0)
        to.put(f"svhn/{split}_32x32.mat", mat_file({"X": images, "y": np.array(labels, np.uint8)[:, None]}))


@TOPIC.layout(
    "Oxford Flowers 102: `jpg/`, `imagelabels.mat`, `setid.mat`",
    "convert flowers-102 out",
    Gives(
        "train 1, validation 1, test 2",
        {"1", "2"},
        {"image_00001.jpg": "1", "image_00004.jpg": "2"},
        where={"image_00001.jpg": "test", "image_00003.jpg": "train"},
    ),
    says="--label-offset",
    then="convert flowers-102 out --label-offset 1 --class-names names.txt",
    today="lists in `.mat` are not read, and that is said",
)
def flowers_102(to: Files) -> None:
    to.put("names.txt", "1\n2")
    to.images("flowers-102/jpg/image_0000{1..4}.jpg")
    to.put("flowers-102/imagelabels.mat", mat_file({"labels": np.array([[1, 1, 2, 2]], np.uint8)}))
    split_lists = {"trnid": [[3]], "valid": [[4]], "tstid": [[1, 2]]}
    to.put("flowers-102/setid.mat", mat_file({name: np.array(rows, np.uint16) for name, rows in split_lists.items()}))


@TOPIC.layout(
    "Stanford Cars: `cars_train/`, `devkit/cars_train_annos.mat`, `devkit/cars_meta.mat`",
    "convert stanford_cars out",
    Gives("train 2", {"AM General Hummer SUV 2000", "Acura RL Sedan 2012"}, {"00001.jpg": "Acura RL Sedan 2012"}),
    today="lists in `.mat` are not read, and that is said",
)
def stanford_cars(to: Files) -> None:
    to.images("stanford_cars/cars_train/0000{1..2}.jpg")
    sides = {"bbox_x1": 4.0, "bbox_y1": 5.0, "bbox_x2": 40.0, "bbox_y2": 30.0}
    rows = [{**sides, "class": float(label), "fname": f"0000{n}.jpg"} for n, label in ((1, 2), (2, 1))]
    to.put("stanford_cars/devkit/cars_train_annos.mat", mat_file({"annotations": rows}))
    names = ["AM General Hummer SUV 2000", "Acura RL Sedan 2012"]
    to.put("stanford_cars/devkit/cars_meta.mat", mat_file({"class_names": names}))


def _hdf5(to: Files, path: str, **arrays: np.ndarray) -> None:
    import h5py

    (to.root / path).parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(to.root / path, "w") as file:
        for name, array in arrays.items():
            file[name] = array


@TOPIC.layout(
    "HDF5: `images`, `labels`", "convert data.h5 out", Gives("train 4", {"0", "1"}, gray={20: "1"}), needs="h5py"
)
def hdf5(to: Files) -> None:
    _hdf5(to, "data.h5", images=grays(TRAIN, 32, 32, 3), labels=np.array(LABELS))


@TOPIC.layout(
    "Galaxy10 DECals: `images`, `ans`",
    "convert Galaxy10.h5 out",
    Gives("train 4", {"0", "1"}, gray={20: "1"}),
    needs="h5py",
)
def galaxy10(to: Files) -> None:
    _hdf5(to, "Galaxy10.h5", images=grays(TRAIN, 69, 69, 3), ans=np.array(LABELS, np.uint8))


@TOPIC.layout(
    "Galaxy10, with the label column named explicitly",
    "convert Galaxy10.h5 out --columns label=ans",
    Gives("train 4", {"0", "1"}, gray={20: "1"}),
    needs="h5py",
)
def galaxy10_column(to: Files) -> None:
    galaxy10(to)


@TOPIC.layout(
    "PatchCamelyon: `camelyonpatch_level_2_split_train_x.h5` with `x`, `..._train_y.h5` with `y`",
    "convert pcam out",
    Gives("train 4, validation 2, test 2", {"0", "1"}, gray={10: "0", 20: "1"}),
    needs="h5py",
)
def pcam(to: Files) -> None:
    for split, pixels, labels in (("train", TRAIN, LABELS), ("valid", (70, 80), (0, 1)), ("test", TEST, TEST_LABELS)):
        name = f"pcam/camelyonpatch_level_2_split_{split}"
        _hdf5(to, f"{name}_x.h5", x=grays(pixels, 96, 96, 3))
        _hdf5(to, f"{name}_y.h5", y=np.array(labels, np.uint8).reshape(-1, 1, 1, 1))


@TOPIC.layout(
    "HDF5 with training and test arrays: `train_set_x`, `train_set_y` (Coursera's cats)",
    "convert catvnoncat.h5 out",
    Gives("train 4", {"0", "1"}, gray={20: "1"}),
    needs="h5py",
)
def coursera(to: Files) -> None:
    _hdf5(
        to,
        "catvnoncat.h5",
        train_set_x=grays(TRAIN, 64, 64, 3),
        train_set_y=np.array(LABELS),
        list_classes=np.array([b"non-cat", b"cat"]),
    )


@TOPIC.layout(
    "Kaggle's USPS: groups `train` and `test`, each with `data` and `target`",
    "convert usps.h5 out",
    says="float",
    needs="h5py",
)
def usps(to: Files) -> None:
    _hdf5(to, "usps.h5", **{"train/data": grays(TRAIN, 256) / np.float32(255), "train/target": np.array(LABELS)})
