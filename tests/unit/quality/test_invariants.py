"""Invariants in SQL, against the same asked row by row in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.lake.tables import TABLES
from quality.check import checks
from quality.run import InMemory, run
from tests.support.planting import LIMITS

Row = dict[str, Any]
TABLE = "partition_history"
TABLES_READ = (TABLE, "invariant_violations")
EMPTY = {name: TABLES[name].file_schema.empty_table() for name in TABLES_READ}
INVARIANTS = [check for check in checks() if check.table == TABLE and check.meaning.startswith("The invariant ")]

brokers = st.integers(-1, 3)
lists = st.none() | st.lists(brokers, max_size=4)
rows = st.lists(
    st.fixed_dictionaries(
        {
            **dict.fromkeys(("replicas", "isr", "elr", "last_known_elr"), lists),
            "directories": st.none() | st.lists(st.sampled_from(["a", "b"]), max_size=4),
            "leader": st.none() | brokers,
            "min_isr": st.none() | st.integers(1, 3),
            "min_isr_source": st.sampled_from([None, "topic", "assumed_default"]),
            "leader_recovery_state": st.sampled_from([None, "RECOVERED", "RECOVERING"]),
        }
    ),
    max_size=8,
)


def members(row: Row, name: str) -> list[int]:
    return row[name] or []


PLAIN: dict[str, Callable[[Row], bool]] = {
    "isr_within_replicas": lambda r: set(members(r, "isr")) <= set(members(r, "replicas")),
    "elr_within_replicas": lambda r: set(members(r, "elr")) <= set(members(r, "replicas")),
    "isr_and_elr_disjoint": lambda r: not set(members(r, "isr")) & set(members(r, "elr")),
    "leader_in_isr": lambda r: r["leader"] in (None, -1) or r["leader"] in members(r, "isr"),
    "elr_empty_at_min_isr": lambda r: (
        not members(r, "elr")
        or len(members(r, "isr")) < (r["min_isr"] or 0)
        or r["min_isr_source"] == "assumed_default"
    ),
    "recovering_isr_is_leader": lambda r: r["leader_recovery_state"] != "RECOVERING" or len(members(r, "isr")) <= 1,
    "directories_match_replicas": lambda r: len(members(r, "directories")) == len(members(r, "replicas")),
    "last_known_elr_never_minus_one": lambda r: -1 not in members(r, "last_known_elr"),
    "replicas_distinct": lambda r: len(set(members(r, "replicas"))) == len(members(r, "replicas")),
}


@settings(max_examples=15)
@given(rows=rows, chunk=st.integers(1, 4))
def test_every_invariant_of_every_row(rows: list[Row], chunk: int) -> None:
    states = [{**row, "topic_id": "t", "partition": 0, "offset": at} for at, row in enumerate(rows)]
    whole = pa.Table.from_pylist(states, schema=EMPTY[TABLE].schema)
    parts = pa.concat_tables([EMPTY[TABLE], *(whole.slice(at, chunk) for at in range(0, len(whole), chunk))])
    found = run(INVARIANTS, InMemory({**EMPTY, TABLE: parts}), LIMITS)
    for name, holds in PLAIN.items():
        broken = {f"offset={at}" for at, row in enumerate(rows) if not holds(row)}
        assert {text.split(", ")[2] for text in found[f"{TABLE}.{name}"].sample} == broken, name
        assert found[f"{TABLE}.{name}"].broken == len(broken), name


def test_the_plain_version_has_them_all() -> None:
    assert set(PLAIN) == {check.name for check in INVARIANTS}
