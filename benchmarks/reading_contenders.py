"""Who takes part in the reading benchmark: each with its script in readings/, its environment and what it is told."""

from collections.abc import Sequence
from dataclasses import dataclass

OURS = "ours, stream"  # whom all are compared with
DECODER = "decoder"  # the floor
YARDSTICKS = (OURS, DECODER)

_TORCH = "torch==2.13.0"  # without CUDA; another version may bring gigabytes of it
_CODECS = ("numpy==2.4.6", "opencv-python-headless==4.14.0.94", "pillow==13.0.0")


@dataclass(frozen=True)
class Environment:
    """A virtual environment. No requirements: the one that the benchmark runs in.

    `probe`: Python that must run in it; where it does not, what it says is the reason why it is not available.
    """

    name: str = ""
    requirements: tuple[str, ...] = ()
    probe: str = ""


@dataclass(frozen=True)
class Contender:
    """`text` is for the table. `large`: takes part with the 12-megapixel photos too."""

    name: str
    text: str
    script: str
    variant: str = ""
    environment: Environment = Environment()
    large: bool = False


TORCH = Environment("reading-torch", (_TORCH, *_CODECS))
GRAIN = Environment("reading-grain", ("grain==0.2.18", "array-record==0.8.6", *_CODECS))
DALI = Environment("reading-dali", ("nvidia-dali-cuda120==2.4.0", "numpy==2.4.6"))
WEBDATASET = Environment("reading-webdataset", (_TORCH, "webdataset==1.0.2", *_CODECS))
LITDATA = Environment("reading-litdata", (_TORCH, "litdata==0.2.76", *_CODECS))
MOSAIC = Environment("reading-mosaic", (_TORCH, "mosaicml-streaming==0.13.0", *_CODECS[1:]))  # it wants an older NumPy
RAY = Environment("reading-ray", ("ray[data]==2.60.0", "pandas==3.1.1", *_CODECS))
SPDL = Environment("reading-spdl", ("spdl==0.8.0", *_CODECS))
FFCV = Environment("reading-ffcv", (_TORCH, "ffcv==1.0.2", *_CODECS[1:]), "import ffcv")

CONTENDERS = (
    Contender(DECODER, "`decode_and_crop_jpeg` alone, same windows", "shardfeed_batches.py", "decoder"),
    Contender(OURS, 'shardfeed, originals, `order="stream"`', "shardfeed_batches.py", "stream", large=True),
    Contender("ours, global", 'shardfeed, originals, `order="global"`', "shardfeed_batches.py", "global"),
    Contender(
        "ours, re-encoded",
        "shardfeed, `--resize-shorter 256 --quality 90`",
        "shardfeed_batches.py",
        "reencoded",
        large=True,
    ),
    Contender("ours, seekable", "shardfeed, `--seekable`, global", "shardfeed_batches.py", "seekable", large=True),
    Contender(
        "ours, seekable 256",
        "shardfeed, `--resize-shorter 256 --quality 90 --seekable`, global",
        "shardfeed_batches.py",
        "seekable-256",
    ),
    Contender(
        "ours, re-encoded, global",
        "shardfeed, `--resize-shorter 256 --quality 90`, global",
        "shardfeed_batches.py",
        "reencoded-global",
    ),
    Contender("ours, raw", "shardfeed, `--encode raw --size 256`, global", "shardfeed_batches.py", "raw"),
    Contender("ours, cached", "shardfeed, originals, cached decoded, global", "shardfeed_batches.py", "cached"),
    Contender(
        "Keras directory",
        "Keras `image_dataset_from_directory`, resize only, float32",
        "keras_directory.py",
        "resize",
    ),
    Contender(
        "Keras layers", "Keras directory, `RandomCrop` and `RandomFlip` layers, float32", "keras_directory.py", "layers"
    ),
    Contender("tf.data tutorial", "tf.data as in tutorials, our shards", "tensorflow_data.py", "tutorial", large=True),
    Contender("tf.data tuned", "tuned tf.data, our shards, smaller windows", "tensorflow_data.py", "tuned", large=True),
    Contender(
        "tf.data tuned, seekable",
        "tuned tf.data, our seekable shards, smaller windows",
        "tensorflow_data.py",
        "tuned-seekable",
    ),
    Contender(
        "TFDS", "TFDS with `SkipDecoding`, tuned tf.data, our shards, smaller windows", "tensorflow_data.py", "tfds"
    ),
    Contender("torch Pillow", "torch `DataLoader`, Pillow, folder", "torch_folder.py", "pillow", TORCH),
    Contender("torch OpenCV", "torch `DataLoader`, OpenCV, folder", "torch_folder.py", "opencv", TORCH, large=True),
    Contender("webdataset Pillow", "webdataset, Pillow, tars", "webdataset_tars.py", "pillow", WEBDATASET),
    Contender("webdataset OpenCV", "webdataset, OpenCV, tars", "webdataset_tars.py", "opencv", WEBDATASET),
    Contender("Mosaic Pillow", "Mosaic Streaming, Pillow, MDS", "mosaic_mds.py", "pillow", MOSAIC),
    Contender("Mosaic OpenCV", "Mosaic Streaming, OpenCV, MDS", "mosaic_mds.py", "opencv", MOSAIC),
    Contender("LitData Pillow", "LitData, Pillow, chunks", "litdata_chunks.py", "pillow", LITDATA),
    Contender("LitData OpenCV", "LitData, OpenCV, chunks", "litdata_chunks.py", "opencv", LITDATA),
    Contender("Grain Pillow", "Grain threads, Pillow, ArrayRecord", "grain_array_record.py", "pillow", GRAIN),
    Contender(
        "Grain OpenCV", "Grain threads, OpenCV, ArrayRecord", "grain_array_record.py", "opencv", GRAIN, large=True
    ),
    Contender("DALI", "DALI on the CPU, our shards", "dali_cpu.py", "", DALI, large=True),
    Contender("DALI, seekable", "DALI on the CPU, our seekable shards", "dali_cpu.py", "seekable", DALI),
    Contender("SPDL OpenCV", "SPDL pipeline threads, OpenCV, folder", "spdl_threads.py", "opencv", SPDL),
    Contender("SPDL FFmpeg", "SPDL's own decoder (the system's FFmpeg), folder", "spdl_threads.py", "ffmpeg", SPDL),
    Contender("Ray Data OpenCV", "Ray Data, OpenCV, folder", "ray_folder.py", "opencv", RAY),
    Contender("FFCV", "FFCV (builds with the system's OpenCV), re-encoded (quality 90)", "ffcv_beton.py", "", FFCV),
    Contender("FFCV 256", "FFCV, re-encoded to a shorter side of 256 (quality 90)", "ffcv_beton.py", "256", FFCV),
)


def chosen(names: Sequence[str] | None, large: bool) -> list[Contender]:
    """Contenders that take part; with `names` only these and the yardsticks. Raises ValueError for unknown ones."""
    known = {contender.name for contender in CONTENDERS}
    if unknown := sorted({*(names or ())} - known):
        raise ValueError(f"got {', '.join(unknown)}; there is {'; '.join(sorted(known))}")
    return [
        contender
        for contender in CONTENDERS
        if (contender.large or not large) and (names is None or contender.name in {*names, *YARDSTICKS})
    ]
