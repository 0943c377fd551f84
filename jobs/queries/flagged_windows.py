"""The flagged windows that commands print. Needs no JVM."""

import sys
from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from jobs.console.output import Format, print_rows, print_table, printable
from jobs.console.text import WORDS, wrapped
from jobs.incident.document import load_answer
from jobs.incident.lookup import KEYS, load_deleted, ordered
from jobs.lake.lake import Lake, Row
from jobs.report.filters import lost_text
from replay.findings.kinds import HWM_REGRESSION, Section
from replay.loss.verdicts import KEPT, LOST
from replay.plan.step import moment

WINDOW_COLUMNS = (
    *("cluster_id", "topic", "topic_id", "partition"),
    *("verdict", "loss_min", "loss_max", "first_lost_offset"),
    *("likely", "likely_rule", "likely_right", "likely_of"),
    *("start_offset", "election_offset", "end_offset", "start_timestamp_ms"),
    *("recorded_leader", "would_be_leader", "finding_id"),
)
# Columns that a narrow table leaves out, the least important first.
_DROP = (
    *("safe at", "longest log", "elected at", "exposed at", "leader", "cluster", "likely"),
    *("since (UTC)", "finding", "from offset", "lost"),
)


def flagged_windows(lake: Lake, every: bool = False) -> list[Row]:
    """The windows of all clusters (WINDOW_COLUMNS), in the order of the report. every: include excluded ones."""
    names = dict.fromkeys([*KEYS.names, *WINDOW_COLUMNS])
    found = lake.read("findings", None, list(names), pc.field("kind") == HWM_REGRESSION)
    sections = (Section.WINDOWS, Section.EXCLUDED) if every else (Section.WINDOWS,)
    return ordered(found, *sections).select(WINDOW_COLUMNS).to_pylist()


def print_windows(
    lake: Lake, form: Format, every: bool = False, most: int | None = None, answers: Mapping[str, Row] | None = None
) -> None:
    """Print `flagged_windows` to stdout; in a table, after the answer of each cluster, at most the first `most`.
    answers: those that are known."""
    rows = flagged_windows(lake, every)
    if form is not Format.TABLE:
        print_rows(list(WINDOW_COLUMNS), rows, form)
        return
    clusters = lake.clusters()
    for cluster in clusters:
        head = [] if len(clusters) == 1 else [f"Cluster {printable(cluster)}"]
        answer = (answers or {}).get(cluster) or load_answer(lake, cluster)
        lines = [*head, *(line for text in answer["text"] for line in wrapped(printable(text))), ""]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    of = f"cluster {printable(clusters[0])}" if len(clusters) == 1 else f"{len(clusters)} clusters"
    if not rows:
        replayed = all(lake.count("partition_history", cluster) for cluster in clusters)
        nothing = "no window was flagged" if replayed else "no window could be judged, since nothing was replayed"
        print(f"{of}: {nothing}" if len(clusters) == 1 else nothing)
        return
    gone = {row["topic_id"] for cluster in clusters for row in load_deleted(lake, cluster)}
    shown = [_table_row(r, len(clusters) > 1, r["topic_id"] in gone) for r in rows[:most]]
    windows = f"{len(rows)} {'' if every else 'flagged '}window{'' if len(rows) == 1 else 's'}"
    names = [name for name in shown[0] if name != "likely" or any(row[name] for row in shown)]
    what = "also those without a loss" if every else "records were lost, or may have been"
    print_table(names, shown, f"{windows} of {of}: {what}", _DROP)
    if len(shown) < len(rows):
        print(f"{len(rows) - len(shown)} more: kraft-forensics windows --lake {lake.root}")


def _table_row(row: dict[str, Any], with_cluster: bool, is_deleted: bool) -> dict[str, Any]:
    leans = row["likely"] in (LOST, KEPT)
    return {
        "window": f"{row['topic']}-{row['partition']}{' (deleted)' if is_deleted else ''}",
        "verdict": row["verdict"],
        "lost": lost_text(row, WORDS),
        "from offset": row["first_lost_offset"],
        "since (UTC)": moment(row["start_timestamp_ms"]),
        "finding": row["finding_id"][:8],
        **({"cluster": row["cluster_id"]} if with_cluster else {}),
        "likely": f"{row['likely']} ({row['likely_right']} of {row['likely_of']})" if leans else None,
        "exposed at": row["start_offset"],
        "elected at": row["election_offset"],
        "safe at": row["end_offset"],
        "leader": row["recorded_leader"],
        "longest log": row["would_be_leader"],
    }
