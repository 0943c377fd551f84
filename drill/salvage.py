"""Get back what a drill has lost, from the disks that it kept, and compare with what the client knows."""

import json
from pathlib import Path

from drill.nodes import CLUSTER_ID
from drill.scenario import name_of, number_of, topic_of
from drill.score import lake_of, wrong
from drill.steps import Drill
from jobs.lake.lake import Lake, Row
from jobs.salvage.live import LiveCluster
from jobs.salvage.output import LINES
from jobs.salvage.produce import produce
from jobs.salvage.stage import salvage
from replay.offsets.parted_logs import ABORTED, ABOVE, BELOW, OPEN_TRANSACTION

# Of `salvage` in drill.told. lost: records acknowledged with acks=all that are gone; found: how many of them were
# salvaged; salvaged: all records that were; live: how many of these a comparison with the running cluster lists, too;
# again: how many were produced into a new topic, and read back equal; below: how many were below the high watermark for
# certain, by the lake.
_COUNTS = ("lost", "found", "salvaged", "live", "again", "below")
_FOREIGN = "salvaged what was not lost"


def salvage_all(drill: Drill) -> None:
    """Compare each kept disk with the logs of those who lead now, save the difference, and produce it again."""
    counts = drill.told["salvage"] = dict.fromkeys(_COUNTS, 0)
    leaders = {name_of(row): row["leader"] for row in drill.partitions()}
    lake = lake_of(drill.out / "lake-salvage", drill.captures)
    current = drill.copy_logs(sorted(drill.cluster.nodes), "local", "current")
    for name in drill.scenario.partitions:
        found: dict[int, str] = {}
        of = drill.ledger.of(topic_of(name), number_of(name))
        lost = {r.offset: r.value for r in of.lost if r.offset is not None}
        for kept in (kept for kept in drill.kept if list(kept.rglob(f"{name}/*.log"))):
            out = kept.with_name(f"saved-{kept.name}-{name}")
            rows = _salvaged(kept, current / f"node-{leaders[name]}", name, (lake, CLUSTER_ID), out)
            live = _salvaged(kept, LiveCluster(drill.cluster.servers), name, None, out.with_name(f"{out.name}-live"))
            by_copy, by_live = ({row["offset"]: row["value"] for row in each} for each in (rows, live))
            if by_live != by_copy:
                differ = "the running cluster and its copy do not list the same"
                drill.wrong.append(wrong(differ, name, f"{len(by_live)} records by the running cluster"))
            counts["live"] += len(by_live)
            counts["below"] += sum(row["high_watermark"] == BELOW for row in rows)
            for row in rows:
                if row["high_watermark"] == ABOVE and row["offset"] in lost:
                    text = f"offset {row['offset']} is said to be above the high watermark"
                    drill.wrong.append(wrong(_FOREIGN, name, text))
            found |= by_copy
            counts["again"] += _again(drill, out, name, rows)
        counts["lost"] += len(lost)
        counts["salvaged"] += len(found)
        counts["found"] += len(lost.items() & found.items())
        for offset, value in lost.items() - found.items():
            drill.wrong.append(wrong("not salvaged", name, f"{value} at offset {offset}"))
        readable = dict(drill.client.ask("read", topic_of(name), number_of(name))["records"])
        for offset, value in found.items():
            if value not in {record.value for record in of.records} or readable.get(offset) == value:
                drill.wrong.append(wrong(_FOREIGN, name, f"{value} at offset {offset}"))
    drill.note(
        f"salvage: {counts['found']} of {counts['lost']} lost records are there again, {counts['again']} produced again"
    )


def _salvaged(
    kept: Path, current: Path | LiveCluster, name: str, lake: tuple[Lake, str] | None, out: Path
) -> list[Row]:
    """What only the kept disk has."""
    salvage(kept, current, [name], lake, out, lambda line: None)
    return [json.loads(line) for line in (out / name / LINES).read_text(encoding="utf-8").splitlines()]


def _again(drill: Drill, out: Path, name: str, salvaged: list[Row]) -> int:
    """Produce into a topic of its own, twice, and read it back. Returns how many records were sent."""
    topic = f"{topic_of(name)}.again-{len(drill.ledger.ids)}"
    partitions = len(drill.scenario.topics[topic_of(name)].replicas)
    drill.ledger.ids[topic] = drill.client.ask("create", topic, "/".join(["2,3"] * partitions))
    cluster = LiveCluster(drill.cluster.servers)
    counted, sent, repeated = (produce(out, cluster, topic, send, superseded=True) for send in (False, True, True))
    left_out = (ABORTED, OPEN_TRANSACTION)
    wanted = [r["value"] for r in salvaged if r["transaction"] not in left_out and not r["sent_again_offset"]]
    back = [value for _, value in drill.client.ask("read", topic, number_of(name))["records"]]
    all_sent = (0, len(wanted), 0, len(wanted))
    if (counted.sent, sent.sent, repeated.sent, repeated.before) != all_sent or back != wanted:
        text = f"{len(wanted)} to produce, {sent.sent} sent, {len(back)} read back"
        drill.wrong.append(wrong("not produced again", name, text))
    return sent.sent
