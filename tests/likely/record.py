"""The record of the rules of replay/loss/likely.py: windows whose truth is known, and what the rules say of them."""

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from drill.ledger import Ledger
from drill.ledger import SentRecord as Sent
from drill.nodes import CLUSTER_ID
from drill.run import TRUTH
from drill.score import GRACE_MS
from jobs.config.settings import load_settings
from jobs.detect.stage import run_detect
from jobs.lake.lake import Lake
from replay.findings.kinds import HWM_REGRESSION
from replay.loss.likely import RULES
from replay.loss.verdicts import EXCLUDED, KEPT, LOST, UNKNOWN
from tests.simulator.detection import detected
from tests.simulator.faults import life
from tests.simulator.judge import found, groups

Row = dict[str, Any]
Record = dict[str, dict[str, tuple[int, int]]]
DRILLS, LIVES = "drills", "lives"
LAKES = ("lake", "lake-without-logs")


class Case(NamedTuple):
    """An open window whose truth is known. rule: the one that applies; leaning: what the kept record makes of it."""

    rule: str | None
    leaning: str
    lost: bool


def cases_of_lives(chunk: tuple[str, int, int]) -> list[Case]:
    """The windows of lives. chunk: as of tests.simulator.runs.chunks."""
    fault, first, count = chunk
    result = []
    for group in groups(life(fault, seed) for seed in range(first, first + count)):
        for each, windows, *_ in found(group, detected(group)):
            known = {offset: truth.lost > 0 for offset, truth in each.truth.items()}
            result += _cases(windows, known)
    return result


def told(windows: Sequence[Row], records: Sequence[Sent]) -> dict[int, bool]:
    """Whether a partition's windows lost records, by election_offset, of those where the client knows it. windows:
    those that are not excluded, with at_ms.

    A record can have been lost in an election from its acknowledgement on, less GRACE_MS (from when it was sent, if
    nobody knows what became of it), until a later record was acknowledged that was kept. A window lost records if a
    record acknowledged with acks=all can have been lost nowhere else, and kept all if none can have been lost in it.
    """
    kept = [r for r in records if r.offset is not None and not r.lost]
    surely, perhaps = set[int](), set[int]()
    for record in records:
        if record.offset is not None and not record.lost:
            continue
        since = (record.sent_ms if record.offset is None else record.at_ms) - GRACE_MS
        until = min((k.at_ms for k in kept if k.sent_ms > record.at_ms), default=inf)
        where = {w["election_offset"] for w in windows if since < w["at_ms"] <= until}
        perhaps |= where
        if record.lost and record.acks == "all" and len(where) == 1:
            surely |= where
    known = surely | {w["election_offset"] for w in windows if w["election_offset"] not in perhaps}
    return {offset: offset in surely for offset in known}


def cases_of_drill(folder: Path) -> Iterator[Case]:
    """The windows of a drill, with and without the nodes' own logs, judged again by this code."""
    ledger = Ledger.from_json(json.loads((folder / TRUTH).read_text(encoding="utf-8"))["partitions"])
    for name in LAKES:
        with TemporaryDirectory() as copy:
            root = shutil.copytree(folder / name, Path(copy) / name)
            shutil.rmtree(root / "findings")  # so that the copy is judged again
            lake = Lake(root)
            run_detect(lake, CLUSTER_ID, load_settings(), lambda _: None)
            times = {r["offset"]: r["timestamp_ms"] for r in lake.rows("partition_history", CLUSTER_ID)}
            rows = [r for r in lake.rows("findings", CLUSTER_ID) if r["kind"] == HWM_REGRESSION]
        windows = [{**r, "at_ms": times[r["election_offset"]]} for r in rows if r["verdict"] != EXCLUDED]
        for place, of in ledger.partitions.items():
            own = [w for w in windows if (w["topic_id"], w["partition"]) == place]
            yield from _cases(own, told(own, of.records))


def _cases(windows: Iterable[Row], known: Mapping[int, bool]) -> list[Case]:
    is_open = [w for w in windows if w["likely"] is not None and w["election_offset"] in known]
    return [Case(w["likely_rule"], w["likely"], known[w["election_offset"]]) for w in is_open]


def record_of(found: Mapping[str, Sequence[Case]]) -> Record:
    """By rule and kind of windows, (right, of)."""
    result: Record = {}
    for rule in RULES:
        of = {
            kind: [RULES[rule] == (LOST if c.lost else KEPT) for c in cases if c.rule == rule]
            for kind, cases in found.items()
        }
        result[rule] = {kind: (sum(right), len(right)) for kind, right in of.items() if right}
    return result


def module(record: Record) -> str:
    """The source of replay/loss/likely_record.py."""
    lines = [
        f'    "{rule}": {{{", ".join(f"{json.dumps(kind)}: {counts}" for kind, counts in known.items())}}},'
        for rule, known in record.items()
    ]
    return "\n".join([_HEAD, *lines, "}", ""])


_HEAD = '''"""The record of each rule of likely.py, by kind of windows: (right, of). `make likely` writes this file."""

RECORD: dict[str, dict[str, tuple[int, int]]] = {'''


def report(found: Mapping[str, Sequence[Case]]) -> str:
    """What the rules, and the kept record with them, said of the windows."""
    lines = []
    for rule, known in record_of(found).items():
        shown = (f"{right} of {of} {kind}" for kind, (right, of) in known.items())
        lines.append(f"{rule:28}{RULES[rule]:6}{'; '.join(shown)}")
    for kind, cases in found.items():
        said = Counter(c.leaning == (LOST if c.lost else KEPT) for c in cases if c.leaning != UNKNOWN)
        lines.append(f"{kind}: {len(cases)} open windows, {said.total()} lean, {said[True]} of them as they should")
    return "\n".join(lines)
