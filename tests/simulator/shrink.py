"""Make a life with a wrong claim as small as it can be, and write it down for a reader and for a test."""

from __future__ import annotations

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
_NOT_SHOWN = (*PROVENANCE_NAMES, "topic", "topic_id", "partition", "message", "logged_at_ms", "logged_at_utc_ms")


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
    text = (
        f"Truth: {truth.lost} lost (first: {truth.first}), {truth.unacked} of the last leader's log, others would have"
    )
    return f"{text} lost\n{truth.would_lose}."


def lines(each: Life) -> list[str]:
    """What happened, in order: states, sessions (by the controller's clock), events (true time), evidence as read."""
    logged = [*each.world.logged, *each.world.of_sessions]
    shown: list[tuple[int, str, Row]] = [(ms, text, {}) for ms, text in each.world.notes]
    shown += [(row["timestamp_ms"], "state", row) for row in each.history()]
    for record in each.session_records():
        place = {name: record[name] for name in ("offset", "batch_base_offset")}
        shown.append((record["timestamp_ms"], record["type"], {**place, **record["data"]}))
    shown += [(row["captured_at_ms"] or 0, "evidence", row) for row in each.evidence]
    shown += [(logged[row["position"]].at_ms, "line", row) for row in each.lines]
    shown += [(reading.captured_at_ms, "boot", reading._asdict()) for reading in each.readings]
    for (broker, epoch), process in each.processes.items():
        shown.append((process.last_ms, "process", {"broker": broker, "epoch": epoch, "next_ms": process.next_ms}))
    shown.sort(key=lambda line: line[0])
    return [f"{ms:>9} {what} {_words(row)}".rstrip() for ms, what, row in shown]


def _words(row: Row) -> str:
    left = {name: value for name, value in row.items() if value not in (None, []) and name not in _NOT_SHOWN}
    return " ".join(f"{name}={','.join(map(str, v)) if isinstance(v, list) else v}" for name, v in left.items())
