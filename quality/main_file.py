"""A file name for a main module that has none (python -c, a worker of pytest-xdist); whoever runs checks imports this
first. PySpark mistakes such a process for its own doctests, and ends it with exit code 0 when pyspark.sql.connect is
imported (pyspark/sql/connect/utils.py)."""

import sys

_MAIN = sys.modules["__main__"]
if not hasattr(_MAIN, "__file__"):
    _MAIN.__file__ = "-c"
