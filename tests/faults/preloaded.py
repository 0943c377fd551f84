"""What the processes of tests/faults/program.py import once, before they are forked. Nothing runs here: no thread but
those of the libraries may exist."""

import sys

# Without a file of the main program, PySpark takes the server for a run of its own tests, and exits.
sys.modules["__main__"].__file__ = __file__

import deltalake  # noqa: E402, F401
import great_expectations  # noqa: E402, F401

import jobs.cli  # noqa: E402
import jobs.pipeline  # noqa: E402
import jobs.quality.stage  # noqa: E402
import jobs.queries.flagged_windows  # noqa: E402
import jobs.report.stage  # noqa: E402, F401
import tests.faults.program  # noqa: E402, F401
