"""Versions of what decides the bytes of a dataset: a resume, and every node that writes shards, must have the same."""

import PIL
import simplejpeg
from PIL import features

from shardfeed.converters.images import baseline as transcode
from shardfeed.converters.images.options import ImageOptions
from shardfeed.errors import check_extra
from shardfeed.formats.registry import NATIVE, shard_format
from shardfeed.version import __version__


def made_by(image: ImageOptions, to: str = NATIVE.name) -> dict[str, str]:
    """Versions of what decides bytes: ours, the codecs that re-encode, the one that refuses damaged images.

    And the package that writes shards of the format `to`, where one does.

    Raises UsageError where `image` asks for a package that is not installed.
    """
    codecs = {name: str(features.version(name)) for name in ("libjpeg_turbo", "zlib") if features.check(name)}
    if image.baseline:
        codecs[transcode.PACKAGE] = transcode.tool_version()
    if image.seekable:
        check_extra("numba", "seekable")
    checker = {"simplejpeg": simplejpeg.__version__}
    return {"shardfeed": __version__, "pillow": PIL.__version__, **checker, **codecs, **shard_format(to).versions()}
