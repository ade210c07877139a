"""Find the packages, and build the optional compiled module, `shardfeed/native`; setup.cfg has all the rest.

Without a compiler or the headers of libjpeg-turbo the package is installed without it, and works.
"""

from glob import glob
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext


class BuildOptional(build_ext):
    """Forget what was not built: an editable install would link it."""

    def build_extensions(self) -> None:
        super().build_extensions()
        self.extensions = [each for each in self.extensions if Path(self.get_ext_fullpath(each.name)).exists()]


NATIVE = Extension(
    "shardfeed.native.library",
    sorted(glob("shardfeed/native/*.cpp")),
    depends=sorted(glob("shardfeed/native/*.h")),
    libraries=["jpeg"],
    # Its symbols are hidden, and its own come first: Pillow, OpenCV and TensorFlow have a libjpeg, too.
    extra_compile_args=[
        "-std=c++17",
        "-O3",
        "-g0",
        "-Wall",
        "-Wextra",
        "-fvisibility=hidden",
        "-fno-math-errno",
        "-ffp-contract=off",
    ],
    extra_link_args=["-Wl,-Bsymbolic", "-Wl,--exclude-libs,ALL", "-Wl,-z,defs"],
    optional=True,
)
ROOTS = {"shardfeed": "shardfeed"} | {
    f"shardfeed.{folder}": folder for folder in ("converters", "readers", "pipelines", "tools")
}
PACKAGES = [*ROOTS, *(f"{root}.{name}" for root, folder in ROOTS.items() for name in find_packages(folder))]
setup(packages=PACKAGES, package_dir=ROOTS, ext_modules=[NATIVE], cmdclass={"build_ext": BuildOptional})
