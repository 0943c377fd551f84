"""Make a life with a wrong claim as small as it can be, and write it down for a reader and for a test."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from replay.arrow.schemas import PROVENANCE_NAMES
from tests.simulator.judge import SILENT, Wrong, judged
from tests.simulator.life import Life, Thinning
from tests.simulator.node_logs import LogThinning
from tests.simulator.setup import Step
from tests.simulator.truth import Truth

Item = TypeVar("Item")
Row = dict[str, Any]


def claim(each: Life, kind: str) -> Wrong | None:
    """The first wrong claim of that kind about a life on its own."""
    tally = judged([each])
    return next((w for w in (tally.silent_ones if kind == SILENT else tally.wrong) if w.kind == kind), None)


def shrunken(each: Life, kind: str) -> Life:
    """The life with as few steps, then rows of evidence, as still bring about a wrong claim of that kind."""

    def lies(life: Life) -> bool:
        try:
            return claim(life, kind) is not None
        except Exception as error:
            raise AssertionError(f"{life.fault}, seed {life.seed}: {error}") from error

    for simpler in (
        replace(each, thinning=Thinning()),
        replace(each, thinning=Thinning(gap=each.thinning.gap)),
        replace(each, thinning=replace(each.thinning, gap=None)),
    ):
        if simpler.thinning != each.thinning and lies(simpler):
            each = simpler
            break
    for logs in (None, LogThinning()):
        if each.logs is not None and lies(replace(each, logs=logs)):
            each = replace(each, logs=logs)
            break
    for change in ({"fail_overs": ()}, {"skews_ms": ()}, {"cut_ms": None}, {"hidden_first_topic": False}):
        simpler = replace(each, setup=replace(each.setup, **change))
        if simpler.setup != each.setup and lies(simpler):
            each = simpler

    def lies_with(**changes: Any) -> bool:
        return lies(replace(each, **changes))

    steps = fewer(each.steps, lambda some: lies_with(steps=some))
    each = replace(each, steps=_calmer(steps, lambda some: lies_with(steps=some)))
    for kept, name in (("kept", "evidence"), ("kept_lines", "lines"), ("kept_readings", "readings")):
        some = fewer(getattr(each, name), lambda some, kept=kept: lies_with(**{kept: some}))
        each = replace(each, **{kept: some})
    logged = fewer(list(each.processes.items()), lambda some: lies_with(kept_processes=dict(some)))
    return replace(each, kept_processes=dict(logged))


def fewer(items: Sequence[Item], still: Callable[[list[Item]], bool]) -> list[Item]:
    """Leave out ever smaller parts while it still holds (delta debugging)."""
    left, size = list(items), max(1, len(items) // 2)
    while True:
        start, dropped = 0, False
        while start < len(left):
            without = left[:start] + left[start + size :]
            if len(without) < len(left) and still(without):
                left, dropped = without, True
            else:
                start += size
        if size == 1 and not dropped:
            return left
        size = max(1, size // 2) if not dropped or size > 1 else 1


def _calmer(steps: list[Step], still: Callable[[list[Step]], bool]) -> list[Step]:
    """Small amounts."""
    for number, step in enumerate(steps):
        for amount in (0, 1):
            if amount < step.amount:
                some = [*steps[:number], step._replace(amount=amount), *steps[number + 1 :]]
                if still(some):
                    steps = some
                    break
    return steps


def write_case(folder: Path, each: Life, kind: str) -> None:
    """README.md, life.json, and history, sessions, evidence and events in lines."""
    wrong = claim(each, kind)
    assert wrong is not None
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "life.json").write_text(json.dumps(each.as_json(), separators=(",", ":")) + "\n")
    truth = each.truth.get(wrong.offset)
    setup = each.setup
    text = f"""# {wrong.kind}: {wrong.text}

Fault class {each.fault}, seed {each.seed}, metadata offset {wrong.offset}.
{_truth(truth)}

Brokers {list(setup.brokers)}, min ISR {setup.min_isr}, ELR {"on" if setup.elr else "off"}, controllers of
{setup.profile}, session timeout {setup.session_timeout_ms} ms, clocks' error {setup.clock_error_ms} ms. `life.json`
has the setup, the steps and the rows that are left; tests/unit/test_simulated_lives.py lives it again.
"""
    (folder / "README.md").write_text(text)
    (folder / "lines.txt").write_text("\n".join(lines(each)) + "\n")


def _truth(truth: Truth | None) -> str:
    if truth is None:
        return "Every line is true."
    text = f"Truth: {truth.lost} lost (first: {truth.first}), {truth.unacked} of the last leader's log"
    return f"{text}, others would have lost\n{truth.would_lose}."


def lines(each: Life) -> list[str]:
    """What happened, in order: states, sessions (by the controller's clock), events (true time), evidence as read."""
    base = each.setup.base_offset
    shown: list[tuple[int, str]] = [(ms, f"         {text}") for ms, text in each.world.notes]
    for row in each.history:
        shown.append((row["timestamp_ms"], f"state    {row['offset'] - base} {_state(row)}"))
    for record in each.session_records:
        data, kind = record["data"], record["type"]
        what = {"REGISTER_BROKER_RECORD": "registers", "UNREGISTER_BROKER_RECORD": "goes"}.get(kind) or _change(data)
        batch = record["batch_base_offset"] - base
        text = (
            f"{record['offset'] - base} (batch {batch}) {data['brokerId']} {what}, epoch {data['brokerEpoch'] - base}"
        )
        shown.append((record["timestamp_ms"], f"session  {text}"))
    for row in each.evidence:
        skip = ("topic", "topic_id", "partition", "captured_at_ms", "capture", "sha256", "position", "path")
        text = " ".join(f"{k}={v}" for k, v in row.items() if v is not None and k not in skip)
        shown.append((row["captured_at_ms"] or 0, f"evidence {text}"))
    for row in each.lines:
        skip = (*PROVENANCE_NAMES, "topic", "topic_id", "partition", "kind", "message", "node_id")
        skip += ("logged_at_ms", "logged_at_utc_ms")
        text = " ".join(f"{k}={v}" for k, v in row.items() if v is not None and k not in skip)
        logged = [*each.world.logged, *each.world.of_sessions]
        shown.append((logged[row["position"]].at_ms, f"line     {row['node_id']} {row['kind']} {text}"))
    for reading in each.readings:
        text = f"boot     {reading.broker} has {reading.boot_id}, since {reading.booted_by_ms} at the latest"
        shown.append((reading.captured_at_ms, text))
    for (broker, epoch), logged_process in each.processes.items():
        text = (
            f"process  {broker} of epoch {epoch - base} wrote its last line, the next one ran {logged_process.next_ms}"
        )
        shown.append((logged_process.last_ms, text))
    shown.sort(key=lambda line: line[0])
    return [f"{ms:>9} {text}" for ms, text in shown]


def _state(row: Row) -> str:
    batch = row["offset"] - row["batch_base_offset"]
    if row["removed"]:
        return "removed"
    names = ("replicas", "isr", "elr", "last_known_elr", "removing_replicas", "adding_replicas")
    lists = " ".join(f"{n}={','.join(map(str, row[n]))}" for n in names if row[n] or n in ("isr", "elr"))
    words = f"leader={row['leader']} epoch={row['leader_epoch']}/{row['partition_epoch']} min_isr={row['min_isr']}"
    return f"(+{batch} in batch) {lists} {words} {row['leader_recovery_state']} {row['origin']}"


def _change(data: Row) -> str:
    if data["inControlledShutdown"]:
        return "shuts down"
    return "is fenced" if data["fenced"] == 1 else "is unfenced"
