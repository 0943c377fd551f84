"""Get back what a drill has lost, from the disks that it kept, and compare with what the client knows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drill.nodes import CLUSTER_ID
from drill.scenario import name_of, number_of, topic_of
from drill.score import FOREIGN, NOT_AGAIN, NOT_AS_LIVE, NOT_SALVAGED, Wrong
from drill.steps import Drill
from jobs.lake.lake import Lake
from jobs.salvage.live import LiveCluster
from jobs.salvage.output import LINES
from jobs.salvage.produce import ProduceOptions, produce
from jobs.salvage.stage import salvage
from replay.offsets.parted_logs import ABORTED, ABOVE, BELOW, OPEN_TRANSACTION

Row = dict[str, Any]

# Of `salvage` in drill.told. lost: records acknowledged with acks=all that are gone; found: how many of them were
# salvaged; salvaged: all records that were; live: how many of these a comparison with the running cluster lists, too;
# again: how many were produced into a new topic, and read back equal; below: how many were below the high watermark for
# certain, by the lake.
_COUNTS = ("lost", "found", "salvaged", "live", "again", "below")


@dataclass
class Saved:
    """pairs: (kept disk, node that leads, partition); lost_offsets: by partition."""

    pairs: list[tuple[Path, Path, str]] = field(default_factory=list)
    lost_offsets: dict[str, list[int]] = field(default_factory=dict)


def check_bounds(drill: Drill, saved: Saved, lake: Path) -> None:
    """With the windows of the lake: nothing that was lost is said to have been above the high watermark."""
    for old, current, name in saved.pairs:
        out = old.with_name(f"bounds-{old.name}-{name}")
        salvage(old, current, [name], (Lake(lake), CLUSTER_ID), out, lambda line: None)
        sides = {row["offset"]: row["high_watermark"] for row in _lines(out / name)}
        drill.told["salvage"]["below"] += sum(side == BELOW for side in sides.values())
        above = [at for at in saved.lost_offsets.get(name, ()) if sides.get(at) == ABOVE]
        drill.wrong += [Wrong(FOREIGN, name, f"offset {at} is said to be above the high watermark") for at in above]


def salvage_all(drill: Drill) -> Saved:
    """Compare each kept disk with the logs of those who lead now, save the difference, and produce it again."""
    result, counts = Saved(), dict.fromkeys(_COUNTS, 0)
    drill.told["salvage"] = counts
    leaders = {name_of(row): row["leader"] for row in drill.partitions()}
    current = drill.copy_logs(sorted(drill.cluster.nodes), "local", "current")
    for name in drill.scenario.partitions:
        lost = [r for r in drill.ledger.records[_place(drill, name)] if r.lost and r.acks == "all"]
        counts["lost"] += len(lost)
        result.lost_offsets[name] = [r.offset for r in lost if r.offset is not None]
        found: dict[int, str] = {}
        for kept in drill.kept:
            node = current / f"node-{leaders[name]}"
            if not list(kept.rglob(f"{name}/*.log")):
                continue
            result.pairs.append((kept, node, name))
            out = kept.with_name(f"saved-{kept.name}-{name}")
            with_copy = _salvaged(kept, node, name, out)
            with_live = _salvaged(kept, LiveCluster(drill.cluster.servers), name, out.with_name(f"{out.name}-live"))
            counts["live"] += len(with_live)
            found |= with_copy
            if with_live != with_copy:
                drill.wrong.append(Wrong(NOT_AS_LIVE, name, f"{len(with_live)} records by the running cluster"))
            _again(drill, out, name, result)
        counts["salvaged"] += len(found)
        saved = [r for r in lost if r.offset in found and found[r.offset] == r.value]
        counts["found"] += len(saved)
        drill.wrong += [Wrong(NOT_SALVAGED, name, f"{r.value} at offset {r.offset}") for r in lost if r not in saved]
        drill.wrong += list(_foreign(drill, name, found))
    drill.note(
        f"salvage: {counts['found']} of {counts['lost']} lost records are there again, {counts['again']} produced again"
    )
    return result


def _salvaged(kept: Path, current: Path | LiveCluster, name: str, out: Path) -> dict[int, str]:
    """Values by offset of what only the kept disk has."""
    salvage(kept, current, [name], None, out, lambda line: None)
    return {row["offset"]: row["value"] for row in _lines(out / name)}


def _foreign(drill: Drill, name: str, found: dict[int, str]) -> Iterator[Wrong]:
    """Salvaged records that nobody sent to the partition, or that can be read at their offset."""
    sent = {record.value for record in drill.ledger.records[_place(drill, name)]}
    here = dict(drill.client.ask("read", topic_of(name), number_of(name))["records"])
    for offset, value in found.items():
        if value not in sent or here.get(offset) == value:
            yield Wrong(FOREIGN, name, f"{value} at offset {offset}")


def _again(drill: Drill, out: Path, name: str, result: Saved) -> None:
    """Produce into a topic of its own, twice, and read it back."""
    topic = f"{topic_of(name)}.again-{len(result.pairs)}"
    partitions = len(drill.scenario.topics[topic_of(name)].replicas)
    drill.ledger.created(topic, drill.client.ask("create", topic, "/".join(["2,3"] * partitions)))
    target = ProduceOptions(topic, drill.cluster.servers, superseded=True)
    counted, sent, repeated = (produce(out, target, send) for send in (False, True, True))
    left_out = (ABORTED, OPEN_TRANSACTION)
    rows = [row for row in _lines(out / name) if row["transaction"] not in left_out and not row["sent_again_offset"]]
    back = [value for _, value in drill.client.ask("read", topic, number_of(name))["records"]]
    drill.told["salvage"]["again"] += sent.sent
    wanted = [row["value"] for row in rows]
    if (counted.sent, sent.sent, repeated.sent, repeated.before) != (0, len(rows), 0, len(rows)) or back != wanted:
        drill.wrong.append(Wrong(NOT_AGAIN, name, f"{len(rows)} to produce, {sent.sent} sent, {len(back)} read back"))


def _place(drill: Drill, name: str) -> tuple[str, int]:
    return drill.ledger.ids[topic_of(name)], number_of(name)


def _lines(folder: Path) -> list[Row]:
    return [json.loads(line) for line in (folder / LINES).read_text(encoding="utf-8").splitlines()]
