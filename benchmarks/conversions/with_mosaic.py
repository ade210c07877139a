"""Runs a script that imports `streaming`, which mosaic_imports makes importable: `python with_mosaic.py SCRIPT ...`."""

import importlib
import runpy
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
importlib.import_module("mosaic_imports")
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
