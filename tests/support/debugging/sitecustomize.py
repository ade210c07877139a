"""Logging of everything, in every process that has this folder on its PYTHONPATH; and short deadlines, if they follow.

`deadlines`, the folder beside it, has a module of the same name, which Python would not load after this one.
"""

import logging
import runpy
import sys

logging.basicConfig(level=logging.DEBUG)
for folder in sys.path:
    if folder.endswith("/deadlines"):
        runpy.run_path(f"{folder}/sitecustomize.py", run_name="sitecustomize")
