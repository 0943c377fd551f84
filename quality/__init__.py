"""Great Expectations: suites, the checkpoint that runs them, Data Docs. Knows DataFrames, not the pipeline."""

import sys

# PySpark takes a process whose main module has no file (python -c, a worker of pytest-xdist) for its own doctests, and
# ends it with exit code 0 as soon as the library imports pyspark.sql.connect (pyspark/sql/connect/utils.py).
_MAIN = sys.modules["__main__"]
if not hasattr(_MAIN, "__file__"):
    _MAIN.__file__ = "-c"
