"""Execute the notebooks of docs/tutorials and keep their outputs: `python docs/run_tutorials.py`, or `make tutorials`.

Without `--out` they are written back, and so are the pictures that other pages show.
"""

import argparse
import base64
import io
import os
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image

HERE = Path(__file__).parent
TUTORIALS = HERE / "tutorials"
MOST_PIXELS = 90_000  # of a JPEG
NAMES = sorted(path.stem for path in TUTORIALS.glob("*.ipynb"))


def execute(path: Path) -> nbformat.NotebookNode:
    """A notebook with the outputs of all its cells, executed in a fresh kernel. Raises what the first failing one did.

    Standard error is left out: progress bars and what frameworks say when they start.
    """
    notebook = nbformat.read(path, as_version=4)
    options = {"timeout": 1200, "record_timing": False, "coalesce_streams": True}
    NotebookClient(notebook, resources={"metadata": {"path": path.parent}}, **options).execute()
    notebook.metadata.language_info = {"name": "python", "pygments_lexer": "ipython3"}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    # The same text for everyone: not the name of a temporary folder, nor the moving parts of progress bars.
    text = re.sub(r"/tmp/tmp\w{8}(?!\w)", "/tmp/tutorial", nbformat.writes(notebook))
    return nbformat.reads(text, as_version=4)


def make_pictures_lighter(notebook: nbformat.NotebookNode) -> None:
    """Store PNGs of outputs with 32 colours and JPEGs with quality 30, of at most 90,000 pixels."""
    for output in (output for cell in notebook.cells for output in cell.get("outputs", ())):
        for kind in {"image/png", "image/jpeg"} & set(output.get("data", ())):
            picture = Image.open(io.BytesIO(base64.b64decode(output.data[kind])))
            lighter = io.BytesIO()
            if kind == "image/png":
                picture.convert("RGBA").quantize(32, method=Image.Quantize.FASTOCTREE).save(
                    lighter, "PNG", optimize=True
                )
            else:
                scale = min(1, (MOST_PIXELS / (picture.width * picture.height)) ** 0.5)
                picture = picture.resize((round(picture.width * scale), round(picture.height * scale)))
                picture.save(lighter, "JPEG", quality=30, progressive=True, optimize=True)
            output.data[kind] = base64.b64encode(lighter.getvalue()).decode()


def write_pictures(notebook: nbformat.NotebookNode) -> None:
    """Write each output of a cell whose metadata name a file in docs/pictures."""
    for cell in notebook.cells:
        if "picture" in cell.metadata:
            (png,) = [output.data["image/png"] for output in cell.outputs if "image/png" in output.get("data", ())]
            picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGBA")
            picture.save(HERE / "pictures" / cell.metadata["picture"], lossless=True, quality=100, method=6)


def main() -> int:
    """Execute all, or those named."""
    parser = argparse.ArgumentParser(description="Execute the tutorials and keep their outputs.")
    parser.add_argument("name", nargs="*", choices=[[], *NAMES], default=NAMES, help="without .ipynb (all)")
    parser.add_argument("--out", type=Path, default=TUTORIALS, help="folder to write into (docs/tutorials)")
    args = parser.parse_args()
    # The kernel and its `!` commands: programs of this environment, CPU only, no start-up lines of TensorFlow.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    os.environ.update({"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""})
    for name in args.name:
        notebook = execute(TUTORIALS / f"{name}.ipynb")
        make_pictures_lighter(notebook)
        nbformat.write(notebook, args.out / f"{name}.ipynb")
        if args.out == TUTORIALS:
            write_pictures(notebook)
    return 0


if __name__ == "__main__":
    sys.exit(main())
