"""Runs the recipes of docs/large-data.md, from and to directories, and from and to a bucket, and compares the bytes.

    python benchmarks/clusters.py [--images DIR] [--programs spark beam processes]

Each program gets an environment of its own (Spark: 1.3 GB, and Java must be installed). The bucket is SeaweedFS, of
the tests' extra.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path += [str(ROOT / "tests" / "support")]

from environments import clean_environment, environment_python  # noqa: E402

from shardfeed.converters import pull  # noqa: E402

from buckets import KEY, SECRET, bucket_behind  # noqa: E402
from seaweed import seaweed  # noqa: E402
from trees import tree  # noqa: E402

_REQUIREMENTS = {"spark": ["pyspark==4.3.0"], "beam": ["apache-beam==2.77.0"], "processes": []}
_OPTIONS = {"beam": ["--runner=DirectRunner"]}


def recipe(program: str, folder: Path) -> Path:
    """Write a recipe of the page to a file."""
    page = (ROOT / "docs" / "large-data.md").read_text()
    (code,) = re.findall(rf"```py\n(# {program}_convert\.py\n.*?)```", page, re.DOTALL)
    path = folder / f"{program}_convert.py"
    path.write_text(code)
    return path


@cache
def python_of(program: str) -> str:
    """The interpreter of a program's environment, which has this repository as it is now."""
    if not _REQUIREMENTS[program]:
        return sys.executable
    python = environment_python(program, [*_REQUIREMENTS[program], "shardfeed[cloud,cloud-write]"])
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--force-reinstall"]
    subprocess.run([*pip, str(ROOT)], check=True)
    return python


def run(program: str, source: str, out: str, folder: Path) -> float:
    """Run one recipe; the seconds it took."""
    python = python_of(program)
    environment = clean_environment() | {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    environment["PYSPARK_SUBMIT_ARGS"] = "--master local[2] pyspark-shell"
    began = time.monotonic()
    command = [python, str(recipe(program, folder)), source, out, *_OPTIONS.get(program, [])]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{program} into {out}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the recipes of docs/large-data.md.")
    parser.add_argument("--images", type=Path, default=ROOT / "data_samples" / "shapes")
    parser.add_argument("--programs", nargs="+", choices=[*_REQUIREMENTS], default=[*_REQUIREMENTS])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in ("here", "seaweed", "proxy", "back", *args.programs):
            (folder / name).mkdir()
        with seaweed(folder / "seaweed", KEY, SECRET) as port, bucket_behind(port, folder / "proxy", "recipes") as b:
            for path in filter(Path.is_file, args.images.rglob("*")):
                b.client.put_object(Bucket=b.name, Key=f"i/{path.relative_to(args.images)}", Body=path.read_bytes())
            for program in args.programs:
                # By the same codecs: their versions are in the manifest.
                here = [args.images, folder / "here" / program / "flowers", "--split", "train=0.9,validation=0.1"]
                (folder / "here" / program).mkdir()
                command = [python_of(program), "-m", "shardfeed.tools.cli", "convert", "--quiet", *here]
                subprocess.run(command, check=True, cwd=folder)
                expected = tree(folder / "here" / program / "flowers")
                seconds = [run(program, str(args.images), str(folder / program / "flowers"), folder)]
                same = [tree(folder / program / "flowers") == expected]
                url = f"s3://recipes/{program}/flowers"
                seconds.append(run(program, "s3://recipes/i", url, folder))
                pull(url, folder / "back" / program)
                same.append(tree(folder / "back" / program) == expected)
                print(program, *(f"{each:.1f} s" for each in seconds), "same bytes" if all(same) else "OTHER BYTES")
                if not all(same):
                    return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
