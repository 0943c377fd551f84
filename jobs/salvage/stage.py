"""Salvage: compare copies partition by partition, say how many records can be saved and which were certainly
acknowledged, and write them where somebody asked for it."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from evidence.errors import Damage
from evidence.limits import DEFAULT_LIMITS, Limits
from evidence.offsets.replica_copy import ReplicaCopy, open_copies
from jobs.lake.lake import Lake, Row
from jobs.salvage.compare import Comparison, Current, compare, marks, salvaged
from jobs.salvage.live import LiveCluster, SalvageError
from jobs.salvage.output import write_segment, write_summary, writer
from replay.findings.kinds import HWM_REGRESSION
from replay.offsets.parted_logs import (
    ABORTED,
    ABOVE,
    BELOW,
    MAYBE,
    OPEN_TRANSACTION,
    Watermark,
    election_that_parted,
    watermark,
)

Progress = Callable[[str], None]
_WINDOW = ("finding_id", "verdict", "loss_min", "loss_max", "high_watermark_min", "election_offset")
_ELECTION = ("offset", "leader_epoch", "leader", "previous_leader")


@dataclass(frozen=True, slots=True)
class Known:
    """What a lake says about a partition. window: of the election at which the logs part; compacted: whether the
    topic's cleanup.policy has `compact`, None if no config says."""

    window: Row | None = None
    bounds: Watermark | None = None
    compacted: bool | None = None


def salvage(
    old: Path,
    current: Path | LiveCluster,
    only: Sequence[str],
    lake: tuple[Lake, str] | None,
    output: Path | None,
    progress: Progress,
    limits: Limits = DEFAULT_LIMITS,
) -> Row:
    """The summary, as salvage.json has it, of each partition that both have. old, current: folders or archives with
    copies, or the running cluster. only: names such as ledger-0; empty: all. lake: with the cluster's id. output: a new
    folder; None: nothing is written. limits: of archives.

    Errors: CaptureError for a copy that cannot be read, SalvageError for no partition, one that is missing, two copies
    of one, or a cluster that does not answer; nothing is left of the output then.
    """
    with ExitStack() as stack:
        ours = _by_name(stack.enter_context(open_copies(old, limits)), only)
        theirs: Mapping[str, Current]
        if isinstance(current, Path):
            place, theirs = str(current), _by_name(stack.enter_context(open_copies(current, limits)), only)
        else:
            place, theirs = current.bootstrap, current.logs((copy.topic, copy.partition) for copy in ours.values())
        pairs = _pairs(ours, theirs, only, (str(old), place), progress)
        if output is not None:
            try:
                output.mkdir(mode=0o700)
            except FileExistsError as error:
                text = "exists already. Salvaged records are never changed: name a new folder."
                raise SalvageError(f"{output}: {text}") from error
            except OSError as error:
                raise SalvageError(f"{output}: cannot be made: {error.strerror}") from error
            stack.push(lambda kind, *_: shutil.rmtree(output, ignore_errors=True) if kind else None)
        rows = [_partition(*pair, lake, output, progress) for pair in pairs]
        summary = {"version": 1, "cluster_id": lake[1] if lake else None, "partitions": rows}
        if output is not None:
            write_summary(output, summary)
    return summary


def _pairs(
    ours: Mapping[str, ReplicaCopy],
    theirs: Mapping[str, Current],
    only: Sequence[str],
    places: tuple[str, str],
    progress: Progress,
) -> list[tuple[ReplicaCopy, Current]]:
    """What is compared: without names not what is of a topic that was made anew, unless there is nothing else."""
    missing = [name for name in only or sorted(ours) if name not in ours or name not in theirs]
    if only and missing:
        raise SalvageError(f"{places[missing[0] in ours]}: no replica of {missing[0]} is in it.")
    found = [(ours[name], theirs[name]) for name in sorted(ours) if name in theirs]
    if not found:
        raise SalvageError(f"{' and '.join(places)} have no replica of the same partition, e.g. a folder ledger-0.")
    for name in missing:
        progress(f"{places[1]}: no replica of {name} is in it: not compared")
    known = [(old, {old.topic_id, current.topic_id} - {None}) for old, current in found]
    anew = {old.name: old.place for old, ids in known if len(ids) > 1}
    if only or len(anew) == len(found):
        return found
    for name, place in anew.items():
        progress(f"{name}: not compared: its topic was made anew since {place}")
    return [pair for pair in found if pair[0].name not in anew]


def _by_name(copies: Iterable[ReplicaCopy], only: Sequence[str]) -> dict[str, ReplicaCopy]:
    found: dict[str, ReplicaCopy] = {}
    for copy in copies:
        if only and copy.name not in only:
            continue
        if copy.name in found:
            raise SalvageError(f"{found[copy.name].place} and {copy.place}: two copies of {copy.name}. Name one.")
        found[copy.name] = copy
    return found


def _partition(
    old: ReplicaCopy, current: Current, lake: tuple[Lake, str] | None, output: Path | None, progress: Progress
) -> Row:
    progress(f"{old.name}: compare {old.place} with {current.place}")
    found = compare(old, current)
    known = known_of(lake, found) if lake else Known()
    of = marks(found)
    folder = output / old.name if output is not None else None
    counts, first, last = Counter[str](), None, None
    with writer(folder) if folder else nullcontext() as write:
        for item in salvaged(found, of):
            if isinstance(item, Damage):
                old.note(item.describe(old.name))
                counts["unreadable_batches"] += 1
                continue
            record, known_of_it = item
            row = {"topic": old.topic, "partition": old.partition, **known_of_it}
            row["high_watermark"] = known.bounds.side(row["offset"]) if known.bounds else None
            counts.update(["records", row["transaction"] or "no_transaction", row["high_watermark"] or "unknown"])
            counts.update(name for name in ("newer_offset", "sent_again_offset") if row[name] is not None)
            first, last = row["offset"] if first is None else first, row["offset"]
            if write is not None:
                headers = [{"key": name, "value": value} for name, value in record.headers]
                write({**row, "key": record.key, "value": record.value, "headers": headers})
    if folder:
        write_segment(folder, found)
    return _summary(found, known, counts, (first, last))


def _summary(found: Comparison, known: Known, counts: Counter[str], ends: tuple[int | None, int | None]) -> Row:
    old, current = found.old, found.current
    sizes = [account for of in found.accounts.values() for account in of.values()]
    return {
        "topic": old.topic,
        "partition": old.partition,
        "topic_id": old.topic_id or current.topic_id,
        "from": old.place,
        "current": current.place,
        "parting_offset": found.parting,
        "parted_by": found.by,
        "common_leader_epoch": found.common_epoch,
        "log_end_offset": found.old_end,
        "first_offset": ends[0],
        "last_offset": ends[1],
        "records": counts["records"],
        "below_high_watermark": {side: counts[side] for side in (BELOW, MAYBE, ABOVE)} if known.bounds else None,
        "aborted": counts[ABORTED],
        "open": counts[OPEN_TRANSACTION],
        "newer_value": counts["newer_offset"] if found.has_records else None,
        "sent_again": counts["sent_again_offset"] if found.has_records else None,
        "compacted": known.compacted,
        "offsets_not_compared": max(0, found.first_offset - found.parting),
        "missing_before_parting": found.cleaned,
        "shared_batches": found.shared_batches,
        "window": known.window,
        "bytes": {
            name: sum(getattr(account, f"{name}_bytes") for account in sizes)
            for name in ("size", "parsed", "damaged", "trailing")
        },
        "unreadable_batches": counts["unreadable_batches"],
        "partial": bool(counts["unreadable_batches"]) or any(account.damaged_bytes for account in sizes),
        "notes": [*old.notes, *current.notes],
    }


def known_of(lake: tuple[Lake, str], found: Comparison) -> Known:
    """The window at whose election the logs part, and what it says of the high watermark. Errors: SalvageError if the
    topic of this name has another id in the lake, or none."""
    of, cluster = lake
    old = found.old
    where = (pc.field("topic") == old.topic) & (pc.field("partition") == old.partition)
    ids = {row["topic_id"] for row in of.rows("partition_history", cluster, ("topic_id",), where)}
    topic_id = old.topic_id or found.current.topic_id or (next(iter(ids)) if len(ids) == 1 else None)
    if topic_id not in ids:
        raise SalvageError(
            f"{old.place}: topic {old.topic} with id {topic_id} is not in the lake. Is it its cluster's?"
        )
    where = (pc.field("topic_id") == topic_id) & (pc.field("partition") == old.partition)
    elections = of.rows("elections", cluster, _ELECTION, where)
    config = (pc.field("resource_name") == old.topic) & (pc.field("name") == "cleanup.policy")
    config &= (pc.field("resource_type") == "topic") & pc.field("end_offset").is_null()
    policies = of.rows("config_history", cluster, ("value",), config)
    values = [row["value"] for row in policies if row["value"] is not None]
    compacted = any("compact" in value for value in values) if values else None
    parted = election_that_parted(elections, found.old_epochs, found.current_epochs, found.parting)
    if parted is None:
        return Known(compacted=compacted)
    election, end = parted
    at = where & (pc.field("kind") == HWM_REGRESSION) & (pc.field("election_offset") == election["offset"])
    window = next(iter(of.rows("findings", cluster, _WINDOW, at)), None)
    bounds = watermark(window, end) if window else None
    return Known({**window, "previous_leader": election["previous_leader"]} if window else None, bounds, compacted)
