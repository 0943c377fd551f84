"""The two Delta tables of a watch, in its folder: partition_states and alarms. Each batch of the stream is committed
once: a commit names the stream and the batch (Delta's transaction identifiers), and one that is there is not repeated.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import TableNotFoundError

from jobs.lake.tables import schema_of
from replay.arrow.schemas import PARTITION_HISTORY
from replay.live import ALARMS as ALARM_COLUMNS

STATES, ALARMS = "partition_states", "alarms"
COMMITTED, UNCOMMITTED, UNKNOWN = "committed", "uncommitted", "unknown"
# A file of this size is not written again, so that tidying takes as long after days as after an hour.
_FULL_BYTES = 8 << 20
STANDS, WITHDRAWN = "stands", "withdrawn"
_NOT_KEPT = ("end_offset", "end_timestamp_ms", "capture", "path", "sha256", "position")
SCHEMAS = {
    STATES: pa.schema([*(f for f in PARTITION_HISTORY if f.name not in _NOT_KEPT), *schema_of("watched_states")]),
    ALARMS: pa.schema([*ALARM_COLUMNS, *schema_of("watched_alarms")]),
}


class WatchTables:
    """folder: of the watch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: dict[str, DeltaTable] = {}

    def append(self, name: str, rows: pa.Table, batch: int) -> None:
        """Commit a batch's rows, unless that was done."""
        app, schema, table = f"watch/{name}", SCHEMAS[name], self._table(name)
        last = None if table is None else table.transaction_version(app)
        if last is not None and last >= batch:
            return
        properties = CommitProperties(app_transactions=[Transaction(app, batch)])
        plain = pa.schema([pa.field(f.name, f.type) for f in schema])
        if len(rows) or table is None:
            write_deltalake(
                table or self.folder / name,
                rows.select(plain.names).cast(plain),
                mode="append",
                commit_properties=properties,
            )

    def tidy(self) -> None:
        """Make one file of many, and delete those that nobody needs any more: of more than an hour ago."""
        for name in SCHEMAS:
            if (table := self._table(name)) is not None:
                table.optimize.compact(target_size=_FULL_BYTES)
                table.create_checkpoint()
                table.vacuum(retention_hours=1, dry_run=False, enforce_retention_duration=False)
                table.cleanup_metadata()

    def delete(self, name: str, offset: int, epoch: int | None = None) -> None:
        """Delete the rows from an offset on; epoch: only what an epoch before it wrote. Once or several times is the
        same, and so it is with `settle`."""
        if (table := self._table(name)) is not None:
            table.delete(f"offset >= {offset}" + ("" if epoch is None else f" AND controller_epoch < {epoch}"))

    def settle(self, committed: int) -> None:
        """Mark what is committed by now. committed: offset up to which (exclusive) the log is."""
        for name in SCHEMAS:
            if (table := self._table(name)) is not None:
                where = f"commit_state = '{UNCOMMITTED}' AND offset < {committed}"
                table.update(predicate=where, new_values={"commit_state": COMMITTED})

    def rows(self, name: str, where: pc.Expression | None = None) -> list[dict[str, Any]]:
        """The rows that match."""
        table = self._table(name)
        found = table.to_pyarrow_dataset().to_table(filter=where) if table is not None else SCHEMAS[name].empty_table()
        return found.to_pylist()

    def _table(self, name: str) -> DeltaTable | None:
        """A table; None before its first commit. It is opened once, which reads all commits: nobody else writes it."""
        if name not in self._opened:
            try:
                self._opened[name] = DeltaTable(self.folder / name)
            except TableNotFoundError:
                return None
        return self._opened[name]
