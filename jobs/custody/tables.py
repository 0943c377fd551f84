"""Check a lake's tables against their own commits: the chain of marks, the bytes of the files, the rows.

Everything is read, nothing is written. Memory is bounded by 8 bytes for each row of files that are not those that the
commits name, and by the names of all files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake.exceptions import DeltaError

from jobs.lake import chain
from jobs.lake.chain import stage_of
from jobs.lake.lake import Lake
from jobs.lake.storage import LakeError
from jobs.lake.tables import CLUSTER_ID, INGESTED, STAGES, TABLES
from jobs.provenance.fingerprint import is_older
from jobs.provenance.rewritten import Replaced, expected_files, file_sha256, replaced
from jobs.provenance.row_digests import RowSet, rows_with

Row = dict[str, Any]
MOST_ROWS = 10  # of each kind that are named


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that is not as this program left it. what: a code (docs/reliability.md). file: of the table or of the
    capture. key: of a row. is_note: whether the rows are as they should be nevertheless."""

    table: str | None
    what: str
    text: str
    file: str | None = None
    key: str | None = None
    is_note: bool = False


def check_tables(lake: Lake, cluster: str) -> Iterator[Difference]:
    """What differs in the tables of one cluster."""
    heads: dict[str, str] = {}
    for name in TABLES:
        try:
            yield from _check_table(lake, name, cluster)
            heads[name] = lake.head(name, cluster).id
        except (DeltaError, LakeError, OSError, pa.ArrowException) as error:
            lines = str(error).splitlines() or [type(error).__name__]
            yield Difference(name, "unreadable", f"the table cannot be read: {lines[0][:300]}")
    for tables in STAGES.values():
        if tables[-1] in heads:
            yield from _older(lake, cluster, tables[-1], heads)


def can_be_replayed(found: Iterable[Difference]) -> bool:
    """Whether a replay can be compared with the derived tables: all tables can be read, and the evidence is what was
    ingested."""
    return not any(
        difference.what in ("unreadable", "file_changed") or (difference.table in INGESTED and not difference.is_note)
        for difference in found
    )


def rewritten(found: Iterable[Difference]) -> list[str]:
    """The tables whose files another program has rewritten with the same rows, and that differ in nothing else."""
    found = list(found)
    wrong = {difference.table for difference in found if not difference.is_note}
    return [str(each.table) for each in found if each.what == "rewritten" and each.table not in wrong]


def _check_table(lake: Lake, name: str, cluster: str) -> Iterator[Difference]:
    commits = list(lake.commits(name))[::-1]
    made = [(c, m) for c in commits if (m := chain.metadata_of(c)).get(CLUSTER_ID) == cluster]
    yield from _foreign(name, commits)
    yield from (broken := list(_broken_links(name, made)))
    expected = expected_files(m for _, m in made)
    damaged = False
    for file in lake.files(name, cluster):
        sha256 = expected.get(file.name)
        if sha256 is not None and (found := file_sha256(lake, f"{name}/{file.path}")) != sha256:
            damaged = True
            text = "is missing" if found is None else f"has SHA-256 {found}, and {sha256} was written"
            yield Difference(name, "file_changed", f"the file {text}", file.path)
    head, other = lake.head(name, cluster), replaced(lake, name, cluster)
    if other.gone or other.new:
        yield from _compare_rows(other)
    elif head.problem and not damaged and not broken:
        yield Difference(name, "log_edited", f"the table's log was edited: {head.problem}")


def _foreign(name: str, commits: Iterable[Row]) -> Iterator[Difference]:
    """Commits without a mark. Whether they changed rows is another question."""
    for commit in commits:
        if not chain.metadata_of(commit) and commit.get("operation") not in chain.OWN_OPERATIONS:
            text = f"commit of another program: {chain.author(commit)}"
            yield Difference(name, "foreign_commit", text, _commit_file(commit), is_note=True)


def _broken_links(name: str, made: list[tuple[Row, Row]]) -> Iterator[Difference]:
    """Commits of a cluster that were edited, removed or added; oldest first."""
    before: Row = {}
    for commit, metadata in made:
        mark, file = metadata["mark"], _commit_file(commit)
        if chain.link_of(metadata) != metadata.get("link") or mark.get("table") != name:
            yield Difference(name, "commit_edited", "the commit was edited: its metadata has another digest", file)
        elif before.get("link") != mark["previous"]:
            yield Difference(name, "commit_missing", "the commit before this one was edited, removed or added", file)
        before = metadata


def _commit_file(commit: Row) -> str | None:
    """A commit's file in the table's folder."""
    return f"_delta_log/{commit['version']:020}.json" if "version" in commit else None


def _compare_rows(other: Replaced) -> Iterator[Difference]:
    """The rows that differ between the files that the commits name and those that the table has instead."""
    name, gone, new = other.table, other.gone, [file.path for file in other.new]
    if other.lost:
        yield Difference(name, "not_comparable", f"{_counts(other)}. {_other_ways(name)}", other.lost[0])
        return
    old, found = RowSet(other.old_rows()), RowSet(other.new_rows())
    if old.same_as(found):
        text = f"rewritten by another program: {len(new)} files instead of {len(gone)}, with the same {old.count} rows"
        yield Difference(name, "rewritten", f"{text} (digest {old.digest[:16]})", is_note=True)
        return
    missing, added = old.without(found), found.without(old)
    for row in rows_with(other.old_rows(), missing, MOST_ROWS):
        text = "a row that was written is missing or was changed"
        yield Difference(name, "row_missing", text, gone[0], key_of(name, row))
    for row in rows_with(other.new_rows(), added, MOST_ROWS):
        yield Difference(name, "row_added", "a row that was not written", new[0], key_of(name, row))
    text = f"rows that were written and are missing: {len(missing)}; rows that were not written: {len(added)}"
    yield Difference(name, "rows_changed", text, (new or gone)[0])


def _counts(other: Replaced) -> str:
    """What is still known of the rows that were written."""
    new = f"{len(other.new)} files of another program with {sum(file.rows for file in other.new)} rows"
    written = other.written_rows()
    known = "whose number is not known" if written is None else f"{written} rows"
    return f"{new} instead of {len(other.gone)} files with {known}, which are gone: their rows cannot be compared"


def _other_ways(table: str) -> str:
    """What the rows can be compared with although the files are gone."""
    if table not in INGESTED:
        return f"`kraft-forensics verify --all` compares them with a replay; `{stage_of(table)}` makes them again"
    return "`kraft-forensics verify --all --capture` compares them with the rows that a capture gives"


def key_of(table: str, row: Row) -> str:
    """The values that identify a row, as text."""
    return ", ".join(f"{name}={row[name]}" for name in TABLES[table].key)


def _older(lake: Lake, cluster: str, last: str, heads: Mapping[str, str]) -> Iterator[Difference]:
    """Tables that are older than a stage's last commit says, because their newest commits were removed."""
    made = lake.made(last, cluster)
    for name, recorded in {**made.get("inputs", {}), **made.get("beside", {})}.items():
        if name in heads and is_older(heads[name], recorded):
            text = f"{last} was made when it had change {recorded}; it is at {heads[name]} now: commits were removed"
            yield Difference(name, "commits_removed", text)
