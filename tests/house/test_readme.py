"""Run the code of README.md and docs/ as it is shown, and check that it prints what they say.

The ```python blocks of a page are one script: each may build on those before, and TensorFlow is imported once. Blocks
marked ```py use another library, or need something that no test has, and are not run. README.md's blocks, and those in
tabs of docs/quickstart.md, are programs of their own: two learn, and README.md's third is killed and resumes.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from repository import ROOT

README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAMS = {page: BLOCK.findall(page.read_text()) for page in (README, ROOT / "docs" / "quickstart.md")}
WITH_BLOCKS = [page for page in PAGES if BLOCK.search(page.read_text()) and page not in PROGRAMS]
ENVIRONMENT = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}

# Blocks are files of their own, as worker processes import the script again that has made them.
RUN_BLOCKS = """
import runpy
import sys

names = {}
for script in sys.argv[1:]:
    names = runpy.run_path(script, init_globals=names, run_name="__main__")
    names = {name: value for name, value in names.items() if not name.startswith("__")}
"""
# Makes a start method of processes the default of all programs that find it, as Python 3.14 does with forkserver.
START_METHOD = "import multiprocessing; multiprocessing.set_start_method({!r})"
# What is about several devices gets two logical CPU devices, which MirroredStrategy uses.
STRATEGY = "tf.distribute.MirroredStrategy()"
TWO_DEVICES = """
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
"""


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory where README's convert command has been typed."""
    here = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "data_samples", here / "data_samples")
    command = re.search(r"^    \$ shardfeed (convert .*)$", README.read_text(), re.MULTILINE)
    assert command
    arguments = [sys.executable, "-m", "shardfeed.tools.cli", *command.group(1).split()]
    done = subprocess.run(arguments, cwd=here, capture_output=True, text=True, check=True)
    (here / "printed.txt").write_text(done.stdout)
    return here


def test_the_convert_command_prints_what_readme_shows(converted: Path) -> None:
    shown = re.search(r"^    \$ shardfeed convert .*\n((?:    .+\n)+?) +\.\.\.$", README.read_text(), re.MULTILINE)
    assert shown
    lines = [line.strip() for line in shown.group(1).splitlines()]
    printed = [line.strip() for line in (converted / "printed.txt").read_text().splitlines()]
    assert len(lines) > 2
    assert printed[: len(lines)] == lines


def test_most_pages_show_code() -> None:
    assert len(WITH_BLOCKS) >= 15


def run_program(code: str, place: Path, method: str) -> str:
    """Return what the program prints."""
    (place / "program.py").write_text(code)
    (place / "sitecustomize.py").write_text(START_METHOD.format(method))
    program, environment = [sys.executable, "program.py"], ENVIRONMENT | {"PYTHONPATH": str(place)}
    done = subprocess.run(program, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_program_for_pytorch_runs_with_any_start_method(converted: Path, tmp_path: Path) -> None:
    """One of them and one epoch here; the rest below."""
    shutil.copytree(converted, tmp_path, dirs_exist_ok=True)
    code = PROGRAMS[README][1].replace("range(30)", "range(1)")
    code += "import multiprocessing\nprint(multiprocessing.get_start_method())\n"
    accuracy, method = run_program(code, tmp_path, "forkserver").splitlines()
    assert re.fullmatch(r"validation accuracy: \d+%", accuracy)
    assert method == "forkserver"


@pytest.mark.long
@pytest.mark.parametrize(("block", "method"), [(0, "fork"), (1, "fork"), (1, "spawn"), (1, "forkserver")])
@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page.stem)
def test_programs_learn_as_much_as_the_page_says(
    converted: Path, tmp_path: Path, page: Path, block: int, method: str
) -> None:
    shutil.copytree(converted, tmp_path, dirs_exist_ok=True)
    for command in re.findall(r"^    \$ shardfeed (convert .* --unlabelled)$", page.read_text(), re.MULTILINE):
        subprocess.run([sys.executable, "-m", "shardfeed.tools.cli", *command.split()], cwd=tmp_path, check=True)
    printed = run_program(PROGRAMS[page][block], tmp_path, method)
    reached = re.search(r"^validation accuracy: (\d+)%$", printed, re.MULTILINE)
    least = re.search(r"at least (\d+) %", page.read_text())
    assert reached
    assert least
    assert int(reached.group(1)) >= int(least.group(1))
    # Prediction prints the names of files, which begin with their classes.
    told = [name.startswith(label) for name, label in re.findall(r"^(\S+)\.jpg (\w+)$", printed, re.MULTILINE)]
    assert len(told) == (12 if "--unlabelled" in page.read_text() else 0)
    assert sum(told) >= 0.9 * len(told)


def test_the_program_that_is_killed_goes_on_with_the_next_batch(converted: Path, tmp_path: Path) -> None:
    shutil.copytree(converted, tmp_path, dirs_exist_ok=True)
    step, program = r"^( +)\.\.\.  # a step.*$", PROGRAMS[README][2]
    told = "print(train.step, images.sum(), *labels, flush=True)"
    killed = "train.step == 20 and os.kill(os.getpid(), 9)"

    def run(in_step: str, left: int) -> list[str]:
        text = re.sub(step, rf"\1{in_step}", program, flags=re.MULTILINE)
        (tmp_path / "program.py").write_text("import os\n" + text)
        command = [sys.executable, "program.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == left, done.stderr
        return done.stdout.splitlines()

    whole = run(told, 0)
    assert [line.split()[0] for line in whole] == [str(number) for number in range(1, 29)]
    (tmp_path / "position.json").unlink()
    assert run(f"{told}; {killed}", -signal.SIGKILL) == whole[:20]
    assert run(told, 0) == whole[19:]  # the position of step 20 had not been saved


def test_versions_of_python_are_the_same_everywhere() -> None:
    """In setup.cfg, which packages show, in the wheels that are built, and on the pages."""
    setup = (ROOT / "setup.cfg").read_text()
    found = re.findall(r"^    Programming Language :: Python :: 3\.(\d+)$", setup, re.MULTILINE)
    assert found == [str(minor) for minor in range(int(found[0]), int(found[-1]) + 1)]
    assert f"python_requires = >=3.{found[0]}\n" in setup
    assert re.findall(r'"cp3(\d+)-manylinux_\*"', (ROOT / "pyproject.toml").read_text()) == found
    said = f"ython 3.{found[0]} to 3.{found[-1]}"
    for page in ("README.md", "docs/versions.md", "CONTRIBUTING.md"):
        assert said in (ROOT / page).read_text(), page


@pytest.mark.long
def test_all_blocks_about_jax_run(converted: Path, tmp_path: Path) -> None:
    """Those that need JAX too, on two logical devices."""
    pytest.importorskip("jax")
    shutil.copytree(converted, tmp_path, dirs_exist_ok=True)
    blocks = re.findall(r"^```py(?:thon)?\n(.*?)^```", (ROOT / "docs" / "jax.md").read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "program.py").write_text("\n".join(blocks))
    devices = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, env=ENVIRONMENT | devices, check=False)
    assert done.returncode == 0


@pytest.mark.long
@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in WITH_BLOCKS])
def test_python_blocks_run(converted: Path, tmp_path: Path, page: Path) -> None:
    shutil.copytree(converted, tmp_path, dirs_exist_ok=True)
    (tmp_path / "run_blocks.py").write_text(RUN_BLOCKS)
    blocks = BLOCK.findall(page.read_text())
    if any(STRATEGY in block for block in blocks):
        blocks.insert(0, TWO_DEVICES)
    scripts = []
    for number, code in enumerate(blocks):
        scripts.append(f"block_{number}.py")
        (tmp_path / scripts[-1]).write_text(
            code.replace(STRATEGY, "tf.distribute.MirroredStrategy(['CPU:0', 'CPU:1'])")
        )
    done = subprocess.run(
        [sys.executable, "run_blocks.py", *scripts],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "UserWarning" not in done.stderr
