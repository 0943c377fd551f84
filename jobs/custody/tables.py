"""Check a lake's tables against their own commits: the chain of marks, the bytes of the files, the rows.

Everything is read, nothing is written. Rows are compared only where the files are not those that the commits name.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa
from deltalake.exceptions import DeltaError
from pyarrow.dataset import Dataset

from jobs.lake.data_files import DataFile
from jobs.lake.integrity import has_had
from jobs.lake.lake import Lake, Row
from jobs.lake.marks import OWN_OPERATIONS, author, link_of, metadata_of, stage_of
from jobs.lake.storage import LakeError
from jobs.lake.tables import CLUSTER_ID, INGESTED, STAGES, TABLES
from jobs.views.in_duckdb import rows_of


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
        except (DeltaError, LakeError, OSError, pa.ArrowException, duckdb.Error) as error:
            lines = str(error).splitlines() or [type(error).__name__]
            yield Difference(name, "unreadable", f"the table cannot be read: {lines[0][:300]}")
    for last in (tables[-1] for tables in STAGES.values() if tables[-1] in heads):
        made = lake.made(last, cluster)
        for name, recorded in {**made.get("inputs", {}), **made.get("beside", {})}.items():
            if name in heads and not has_had(lake, name, cluster, heads[name], recorded):
                text = (
                    f"{last} was made when it had change {recorded}; it is at {heads[name]} now: commits were removed"
                )
                yield Difference(name, "commits_removed", text)


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
    made = [(commit, row) for commit in commits if (row := metadata_of(commit)).get(CLUSTER_ID) == cluster]
    for commit in commits:  # whether they changed rows is another question
        if not metadata_of(commit) and commit.get("operation") not in OWN_OPERATIONS:
            text = f"commit of another program: {author(commit)}"
            yield Difference(name, "foreign_commit", text, _commit_file(commit), is_note=True)
    wrong = list(_broken_links(name, made))
    written = _written_files(row["mark"] for _, row in made)
    files = {file.name: file for file in lake.files(name, cluster)}
    for file in files.values():
        sha256 = written.get(file.name)
        if sha256 is not None and (found := lake.sha256(name, file.path)) != sha256:
            text = "is missing" if found is None else f"has SHA-256 {found}, and {sha256} was written"
            wrong.append(Difference(name, "file_changed", f"the file {text}", file.path))
    yield from wrong
    if written.keys() != files.keys():
        gone = [file for file in written if file not in files]
        lost = [file for file in gone if lake.sha256(name, file) != written[file]]
        yield from _compare_rows(lake, name, gone, [file for file in files.values() if file.name not in written], lost)
    elif (problem := lake.head(name, cluster).problem) and not wrong:
        yield Difference(name, "log_edited", f"the table's log was edited: {problem}")


def _broken_links(name: str, made: list[tuple[Row, Row]]) -> Iterator[Difference]:
    """Commits of a cluster that were edited, removed or added; oldest first."""
    previous = None
    for commit, metadata in made:
        mark, file = metadata["mark"], _commit_file(commit)
        if link_of(metadata) != metadata.get("link") or mark.get("table") != name:
            yield Difference(name, "commit_edited", "the commit was edited: its metadata has another digest", file)
        elif previous != mark["previous"]:
            yield Difference(name, "commit_missing", "the commit before this one was edited, removed or added", file)
        previous = metadata.get("link")


def _commit_file(commit: Row) -> str | None:
    """A commit's file in the table's folder."""
    return f"_delta_log/{commit['version']:020}.json" if "version" in commit else None


def _written_files(marks: Iterable[Row]) -> dict[str, str]:
    """SHA-256 by name of the files that a cluster has by its marks, oldest first."""
    files: dict[str, str] = {}
    for mark in marks:
        for name in mark["removed"] if mark["kept"] else list(files):
            files.pop(name, None)
        files |= mark["added"]
    return files


def _compare_rows(lake: Lake, name: str, gone: list[str], new: list[DataFile], lost: list[str]) -> Iterator[Difference]:
    """The rows that differ between the files that the commits name and those that the table has instead. lost: of
    `gone`, those whose bytes are no longer there."""
    if lost:
        now = f"{len(new)} files of another program with {sum(file.rows for file in new)} rows"
        text = f"{now} instead of {len(gone)} files, which are gone: their rows cannot be compared"
        if name in INGESTED:
            ways = "`kraft-forensics verify --all --capture` compares them with the rows that a capture gives"
        else:
            ways = f"`kraft-forensics verify --all` compares them with a replay; `{stage_of(name)}` makes them again"
        yield Difference(name, "not_comparable", f"{text}. {ways}", lost[0])
        return
    files, columns = [file.path for file in new], TABLES[name].file_schema.names
    old, now = lake.dataset_of(name, gone), lake.dataset_of(name, files)
    (missing, gone_rows), (added, new_rows) = only_in(old, now, columns), only_in(now, old, columns)
    if not gone_rows + new_rows:
        count = sum(file.rows for file in new)
        text = f"rewritten by another program: {len(new)} files instead of {len(gone)}, with the same {count} rows"
        yield Difference(name, "rewritten", text, is_note=True)
        return
    for row in missing:
        text = "a row that was written is missing or was changed"
        yield Difference(name, "row_missing", text, gone[0], key_of(name, row))
    for row in added:
        yield Difference(name, "row_added", "a row that was not written", files[0], key_of(name, row))
    text = f"rows that were written and are missing: {gone_rows}; rows that were not written: {new_rows}"
    yield Difference(name, "rows_changed", text, (files or gone)[0])


def key_of(table: str, row: Row) -> str:
    """The values that identify a row, as text."""
    return ", ".join(f"{name}={row[name]}" for name in TABLES[table].key)


MOST_ROWS = 10  # of each kind that are named


def only_in(one: pa.Table | Dataset, other: pa.Table | Dataset, columns: Sequence[str]) -> tuple[list[Row], int]:
    """The first MOST_ROWS rows that a table has more often than another one, and how many there are. Null equals
    null."""
    names = ", ".join(f'"{name}"' for name in columns)
    query = f"select {names} from one except all select {names} from other"
    first = f"select *, count(*) over () as rows_in_all from ({query}) order by all limit {MOST_ROWS}"
    found = rows_of(first, None, {"one": one, "other": other})
    return [{name: row[name] for name in columns} for row in found], found[0]["rows_in_all"] if found else 0
