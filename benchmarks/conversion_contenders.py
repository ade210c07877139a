"""Who takes part in the benchmark of conversion: a script of benchmarks/conversions each, and what it needs.

Versions are pinned, so that figures of different days can be compared; the table says which they were.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(__file__).parent / "conversions"
_TORCH = "torch==2.13.0"
_OWN = ("pillow", "google-crc32c")


@dataclass(frozen=True)
class Contender:
    """One way to convert a folder of photos.

    text: its row in the table. script: under benchmarks/conversions, or an absolute path; `arguments` come after the
    folders, with {shards}, {shard_bytes} and {shorter} filled in.
    requirements: of its own environment; none means that it runs in the interpreter of the driver. probe: Python that
    must run there. packages: whose versions the table names.
    few: its start, workers that it starts itself and the like, is what the same conversion of ten photos takes; else it
    is what the script measured before its first image.
    remark: what a reader of the table must know.
    """

    text: str
    script: str
    arguments: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    probe: str = ""
    packages: tuple[str, ...] = ()
    few: bool = False
    remark: str = ""

    def command(self, python: str, photos: str, out: str, values: Mapping[str, int]) -> list[str]:
        """Command that converts `photos` into the empty folder `out`."""
        arguments = [argument.format(**values) for argument in self.arguments]
        return [python, str(SCRIPTS / self.script), photos, out, *arguments]


def _ours(text: str, *arguments: str, remark: str = "") -> Contender:
    every = (*arguments, "--shards", "{shards}")
    return Contender(text, "shardfeed_convert.py", every, packages=_OWN, few=True, remark=remark)


# Files as they are into larger ones. Those that are compared most closely stand side by side, and run so.
COPYING: dict[str, Contender] = {
    "header": _ours("shardfeed, `--check header --no-hash`", "--check", "header", "--no-hash"),
    "tar": Contender("`tar cf`", "copying.py", ("tar",), remark="one process"),
    "header_no_fsync": _ours(
        "the same without fsync",
        *("--check", "header", "--no-hash", "--skip-fsync"),
        remark="not durable; measures the cost of fsync",
    ),
    "cp": Contender("`cp -r`", "copying.py", ("cp",), remark="one process, one file per image"),
    "header_hash": _ours("shardfeed, `--check header`", "--check", "header", remark="sha256 of each file"),
    "decode": _ours("shardfeed, `--no-hash`", "--no-hash", remark="decodes each image"),
    "codec": Contender(
        "the decoder alone", "codec_ceiling.py", packages=_OWN, remark="from memory, writes nothing: the upper bound"
    ),
    "default": _ours("shardfeed, defaults", remark="decodes and hashes each image"),
    "tensorflow": Contender(
        "`tf.io.TFRecordWriter` loop",
        "tensorflow_loop.py",
        ("{shards}",),
        packages=("tensorflow",),
        remark="one process",
    ),
    "array_record": Contender(
        "ArrayRecord, hand-written process pool",
        "array_record_files.py",
        ("{shards}",),
        requirements=("array_record==0.8.6",),
        probe="from array_record.python import array_record_module",
        packages=("array_record",),
    ),
    "tfrecord": Contender(
        "`tfrecord` package",
        "tfrecord_package.py",
        ("{shards}",),
        requirements=("tfrecord==1.14.6",),
        probe="import tfrecord.writer",
        packages=("tfrecord",),
        remark="one process, without its index",
    ),
    "webdataset": Contender(
        "WebDataset `ShardWriter`",
        "webdataset_tars.py",
        ("{shard_bytes}",),
        requirements=("webdataset==1.0.2",),
        probe="import webdataset",
        packages=("webdataset",),
        remark="one process",
    ),
    "mosaic": Contender(
        "Mosaic Streaming `MDSWriter`",
        "mosaic_mds.py",
        ("{shard_bytes}",),
        requirements=(_TORCH, "mosaicml-streaming==0.13.0"),
        probe="import torch",
        packages=("mosaicml-streaming", "torch"),
        remark="if torchvision cannot be imported, empty classes replace two of its names that MDSWriter never uses",
    ),
    "litdata": Contender(
        "LitData `optimize`",
        "litdata_chunks.py",
        ("{shard_bytes}",),
        requirements=(_TORCH, "litdata==0.2.76"),
        probe="import litdata",
        packages=("litdata", "torch"),
        few=True,
    ),
    "tfds": Contender(
        "TFDS `GeneratorBasedBuilder`",
        "tfds_build.py",
        requirements=("tensorflow==2.21.0", "tensorflow-datasets==4.9.10", "importlib_resources==7.1.0"),
        probe="import tensorflow_datasets",
        packages=("tensorflow-datasets", "tensorflow"),
        few=True,
        remark="one process; shuffles",
    ),
    "ray": Contender(
        "Ray Data `write_webdataset`",
        "ray_data.py",
        requirements=("ray[data]==2.60.0", "pandas==3.1.1"),
        probe="import pandas, ray.data",
        packages=("ray",),
        few=True,
        remark="its own block size",
    ),
}

# Decoded, made smaller, encoded again.
REENCODING: dict[str, Contender] = {
    "resize": _ours(
        "shardfeed, `--resize-shorter {shorter}`", "--resize-shorter", "{shorter}", remark="hashes each image"
    ),
    "pillow": Contender(
        "Pillow loop in two processes",
        "pillow_loop.py",
        ("{shorter}",),
        packages=("pillow",),
        remark="full decode, LANCZOS, one file per image",
    ),
    "img2dataset": Contender(
        "img2dataset from file:// URLs",
        "img2dataset_local.py",
        ("{shorter}",),
        requirements=("img2dataset==1.47.0",),
        probe="import img2dataset",
        packages=("img2dataset", "opencv-python-headless"),
        few=True,
        remark="two processes with eight threads each; its default interpolation",
    ),
    "ffcv": Contender(
        "FFCV `RGBImageField`",
        "ffcv_beton.py",
        ("{shorter}",),
        requirements=(_TORCH, "ffcv==1.0.2"),
        probe="import ffcv.writer",
        packages=("ffcv", "torch"),
        few=True,
    ),
}
