"""Run by the job's own Python: plant secrets of every kind in a capture, and search for them.

`planted.py plant FOLDER`; `planted.py search GIVEN OTHERS ROOT...` prints how many files were searched, and
file and secret of each leak, as JSON. GIVEN: a folder that is not searched. OTHERS: a file with further secrets, one
a line.
"""

import json
import sqlite3
import sys
from pathlib import Path

from tests.slow.test_secrets_everywhere import SECRETS, forms, planted, searchable, secrets_capture


def _dumped(file: Path) -> bytes:
    """All tables of a SQLite database, as statements."""
    connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        return "\n".join(connection.iterdump()).encode("utf-8", "backslashreplace")
    finally:
        connection.close()


if sys.argv[1] == "plant":
    secrets_capture(Path(sys.argv[2]))
else:
    given, others, *roots = map(Path, sys.argv[2:])
    secrets = [planted(number) for number in SECRETS] + others.read_bytes().splitlines()
    wanted = [form for secret in secrets for form in forms(secret)]
    found, files = [], 0
    for root in roots:
        for name, data in searchable(root, given):
            files += 1
            data += _dumped(root / name) if name.endswith(".db") else b""
            found += [[f"{root.name}/{name}", form.decode(errors="replace")] for form in wanted if form in data]
    print(json.dumps({"files": files, "leaks": found}))
