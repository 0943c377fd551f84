"""The process that forks Spark's Python workers: it imports what tasks need before the first fork, so that no worker
does. Importing starts no thread that a fork would lose: Arrow, NumPy and delta-rs start theirs when they are used."""

import gc
from importlib import import_module

from pyspark import daemon, worker  # noqa: F401

from jobs.spark.processes import TASK_MODULES

for name in TASK_MODULES:
    import_module(name)
gc.freeze()  # PySpark collects after each task of a worker: it would look at all of this again, and copy its pages

if __name__ == "__main__":
    daemon.manager()
