"""Great Expectations: suites, what runs them, and Data Docs. Knows DataFrames, not the pipeline."""

import sys

# PySpark mistakes a process whose main module has no file (python -c, a worker of pytest-xdist) for its own doctests,
# and ends it with exit code 0 when pyspark.sql.connect is imported (pyspark/sql/connect/utils.py).
_MAIN = sys.modules["__main__"]
if not hasattr(_MAIN, "__file__"):
    _MAIN.__file__ = "-c"
