"""Copies of metadata logs that are kept up to date, whatever happens to the logs."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.jobs.collect.test_follow import FIRST, LOG, Rounds, copied, following, logged, node

KINDS = ("append", "cut", "regrow", "replace", "roll", "ask")
CHANGES = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 20_000)), min_size=3, max_size=25)


@given(CHANGES)
@settings(max_examples=15, deadline=None)
def test_whatever_happens_to_a_log_its_copy_is_the_same(changes: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as temporary:
        folder, copies = node(Path(temporary) / "node"), Path(temporary) / "copies"
        log = folder / "data" / LOG / FIRST
        with Rounds(following(folder, copies)) as asked:
            for kind, size in (*changes, ("ask", 0)):
                data = log.read_bytes()
                if kind == "append":
                    with log.open("ab") as file:
                        file.write(os.urandom(size))
                elif kind == "cut":
                    os.truncate(log, max(0, len(data) - size))
                elif kind == "regrow":  # cut, and as long again as before
                    log.write_bytes(data[: max(0, len(data) - size)] + os.urandom(min(size, len(data))))
                elif kind == "replace":
                    log.with_suffix(".other").write_bytes(os.urandom(size))
                    log.with_suffix(".other").replace(log)
                elif kind == "roll":
                    log = log.with_name(f"{int(log.stem) + 1000:020d}.log")
                    log.write_bytes(os.urandom(size))
                else:
                    asked.ask()
                    assert copied(copies) == logged(folder)
