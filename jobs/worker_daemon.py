"""The process that forks Spark's Python workers: it imports what tasks need before the first fork, so that no worker
does. Importing starts no thread that a fork would lose: Arrow, NumPy and delta-rs start theirs when they are used."""

import gc
import os
import sys
from importlib import import_module
from pathlib import Path

from jobs.spark.processes import TASK_MODULES

# Spark of pip has PySpark twice, as a package and in zips, which stand first in the path (PythonUtils.sparkPythonPath):
# Python compiles those in each process anew, nearly a second of computing.
_home = Path(os.environ.get("SPARK_HOME", ""))
if _home.parent.resolve() in {Path(place).resolve() for place in sys.path}:
    sys.path[:] = [place for place in sys.path if Path(place).parent != _home / "python" / "lib"]

for name in ("pyspark.daemon", "pyspark.worker", *TASK_MODULES):
    import_module(name)
gc.freeze()  # PySpark collects after each task of a worker: it would look at all of this again, and copy its pages

if __name__ == "__main__":
    import_module("pyspark.daemon").manager()
