"""What `inspect` prints, with the compiled loops and without."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

from evidence.metadata_log.inspect import inspect_file, print_file
from evidence.metadata_log.rows import to_json

_NEVER = 1 << 60


def printed_both_ways(data: bytes) -> list[str]:
    """The lines of `inspect`: with the compiled loops and without, the JSON of the rows."""
    with tempfile.NamedTemporaryFile(prefix='a "quoted" ü', suffix=".log") as file:
        path = Path(file.name)
        path.write_bytes(data)
        for show_secrets in (False, True):
            rows_ = list(inspect_file(path, show_secrets))
            expected = "".join(to_json(row) + "\n" for row in rows_).encode("utf-8", "backslashreplace")
            for compiled_from in (0, _NEVER):
                out = io.BytesIO()
                assert print_file(path, out, show_secrets, compiled_from) == any("error" not in row for row in rows_)
                assert out.getvalue() == expected
        return expected.decode().splitlines()
