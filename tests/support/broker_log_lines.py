"""Lines of brokers' own logs for small histories (scenario.py), in a line each:

    logged("b1 leads e0 p1 at=80 hw=80", "b1 follows 2 e1 p3 at=150 hw=150 from=1/0", "b2 stays e1 p4 hw=90")
    logged("b3 cuts 2 r0 to=80 hw=110", "b3 cuts-old 2 r0 to=80 hw=110")

`leads`, `follows` and `stays` are the lines with which a broker begins to lead, begins to follow (2, or -1 for nobody)
and goes on to lead: leader epoch, partition epoch, log end, high watermark, and the leader and leader epoch that the
process knew before (`from`; without it: none). `cuts` is a truncation below the high watermark as 4.2 logs it,
`cuts-old` as 4.1 does; r0: the epoch that the leader answered. A word t=9 is the second of the node's clock at which
it was logged, utc=9 that time in UTC (utc=?: unknown); else lines are a second apart. `damaged`: a start found damage,
at an unknown time without utc (index as the last word: of an index). `creates`: it makes an empty log (-future as the
last word: one to move to).
`loads` is the log end that a start loaded, `loads-hw` the high watermark. `shrinks 1` is a leader's line that it wants
the ISR [1], `updates` that it learned a partition epoch from the controller's answer. `goes-on` is a follower that
learns a state of its leader epoch, `unclean` a controller's line of an unclean election. `old` as the last word: as up
to 4.1, where a follower prints its new leader and epoch as the previous ones.
"""

from typing import Any

import pyarrow as pa

from evidence.tables import BROKER_LOG_EVENTS
from tests.support.scenario import TOPIC_ID, ms

Row = dict[str, Any]


def logged(*lines: str) -> pa.Table:
    """tables.BROKER_LOG_EVENTS of scenario.py's partition."""
    rows = [row for number, line in enumerate(lines) for row in _rows(line, number)]
    return pa.Table.from_pylist(rows, schema=BROKER_LOG_EVENTS)


def _rows(line: str, number: int) -> list[Row]:
    broker, what, *words = line.split()
    values = dict(word.split("=", 1) for word in words if "=" in word)
    numbers = {word[0]: int(word[1:]) for word in words if word[:1] in "epr" and word[1:].isdigit()}
    leader = next((int(w) for w in words if w.lstrip("-").isdigit()), None)
    node = int(broker[1:])
    of_server = what.startswith(("cuts", "damaged", "creates", "shrinks", "updates", "loads"))
    file = "server.log" if of_server else "state-change.log"
    common = {
        "topic_id": TOPIC_ID,
        "topic": "t",
        "partition": 0,
        "node_id": node,
        "logged_at_ms": ms(float(values.get("t", number))),
        "capture": "c",
        "path": f"logs/broker-{node}/{file}",
        "sha256": "00",
        "position": 1_000 * number,
        "logged_at_utc_ms": None if values.get("utc") == "?" else ms(float(values.get("utc", number))),
        "leader": leader,
        "high_watermark": int(values["hw"]) if "hw" in values else None,
        "isr": [int(b) for b in values["isr"].split(",")] if "isr" in values else None,
    }
    if what == "damaged":
        utc_ms = common["logged_at_utc_ms"] if "utc" in values else None
        kind = "index_rebuilt" if words[-1:] == ["index"] else "corruption_found"
        return [{**common, "kind": kind, "truncated_to": 0, "logged_at_utc_ms": utc_ms}]
    if what == "creates":
        return [{**common, "kind": "log_created", "directory": f"/d/t-0{words[-1] if words[-1] == '-future' else ''}"}]
    if what.startswith("loads"):
        kind, end = ("log_loaded", None) if what == "loads-hw" else ("log_load_completed", int(values["at"]))
        return [{**common, "kind": kind, "log_end_offset": end}]
    if what == "shrinks":
        return [{**common, "kind": "isr_shrinking", "isr": [leader], "leader": None}]
    if what == "updates":
        return [{**common, "kind": "isr_updated", "partition_epoch": numbers["p"]}]
    if what.startswith("cuts"):
        return list(_cut(common, numbers["r"], int(values["to"]), int(values["hw"]), what == "cuts-old"))
    if what == "unclean":
        line = {**common, "kind": "unclean_election", "leader_epoch": numbers["e"], "partition_epoch": numbers["p"]}
        return [{**line, "message": f"... with topic ID {TOPIC_ID}: ..."}]
    if what == "goes-on":
        line = {**common, "kind": "follower_unchanged", "leader_epoch": numbers["e"], "partition_epoch": numbers["p"]}
        return [{**line, "message": f"... with topic id Some({TOPIC_ID}) ..."}]
    kind = {"leads": "leader_started", "follows": "follower_started", "stays": "leader_unchanged"}[what]
    known = values["from"].split("/") if "from" in values else ("", "-1")
    previous: Row = {"previous_leader": int(known[0]) if known[0] else None, "previous_leader_epoch": int(known[1])}
    if words[-1] == "old":
        previous = {"previous_leader": leader, "previous_leader_epoch": numbers["e"]}
    row = {**common, "kind": kind, "leader_epoch": numbers["e"], "partition_epoch": numbers["p"]}
    row["message"] = "" if kind == "follower_started" else f"... with topic id Some({TOPIC_ID}) ..."
    if kind == "leader_unchanged":
        return [row]
    return [{**row, **previous, "log_end_offset": int(values["at"])}]


def _cut(common: Row, answered: int, to: int, high_watermark: int, is_old: bool) -> list[Row]:
    first = {**common, "kind": "truncating_to_leaders_epoch", "leader_epoch": answered, "truncated_to": to}
    first["high_watermark"] = None
    at, position = common["logged_at_ms"], common["position"]
    later = {**common, "leader": None, "logged_at_ms": at + 2, "position": position + 100, "truncated_to": to}
    if not is_old:
        return [first, {**later, "kind": "truncated_below_high_watermark", "high_watermark": high_watermark}]
    back = {"high_watermark": to, "previous_high_watermark": high_watermark, "truncated_to": None}
    return [
        first,
        {**later, "kind": "truncated", "high_watermark": None},
        {**later, "kind": "high_watermark_set_back", "position": position + 200, **back},
    ]
