"""One target of tests/fuzz/guided.py in this process, until its time is over or an input fails.

    python -m tests.fuzz.instrumented TARGET [libFuzzer's options] [folder or file]

Everything of evidence/ is imported here first: only what Atheris has instrumented tells it which lines were reached.
"""

import sys
import tempfile
from pathlib import Path

import atheris

# Compiled by numba, which does not read instrumented code.
_COMPILED = ["evidence.metadata_log.partition_kernel"]

with atheris.instrument_imports(include=["evidence"], exclude=_COMPILED):
    from tests.fuzz.corpus import every_record
    from tests.fuzz.guided import file_of
    from tests.fuzz.reading import read


def main() -> None:
    """Fuzz; ends the process."""
    program, target, *options = sys.argv
    with tempfile.TemporaryDirectory() as folder:
        read(every_record(), Path(folder) / "first")  # loads the compiled loops

        def one_input(data: bytes) -> None:
            read(file_of(target, data), Path(folder) / "capture")

        atheris.Setup([program, *options], one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
