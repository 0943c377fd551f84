"""Print the result of `ahead`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from jobs.console.options import DocumentFormat
from jobs.console.output import plain, print_table, printable, show_message
from jobs.queries.ahead import Answer, effect_counts
from replay.whatif.ahead import EFFECTS, OPENS_WINDOW

_DROP = ("elr", "isr", "lost at most", "if")
_MOST = 100


def print_answer(answer: Answer, form: DocumentFormat) -> None:
    """As JSON: one object with all rows. As a table: the partitions that change, what that means, and what is not
    known."""
    if form is DocumentFormat.JSON:
        rows = [{**row, "opens_window": bool(set(row["effects"]) & set(OPENS_WINDOW))} for row in answer.rows]
        print(json.dumps(plain({"safe": answer.safe, **asdict(answer), "rows": rows}), ensure_ascii=False))
        return
    if answer.rows:
        worst = sorted(_worst_first(answer.rows)[:_MOST], key=lambda row: answer.steps.index(row["step"]))
        shown = [_shown(row) for row in worst]
        names = [name for name in shown[0] if name != "if" or any(row["if"] for row in shown)]
        title = f"predicted from the state at metadata offset {answer.offset} of cluster {printable(answer.cluster_id)}"
        print_table(names, shown, title, _DROP)
        if len(answer.rows) > _MOST:
            show_message(f"{len(answer.rows) - _MOST} more rows are not shown: --format json has all of them")
    elif answer.steps:
        print("no partition would change")
    for note in answer.notes:
        print(note)
    for effect, count in effect_counts(answer).items():
        print(f"{count} partition{'' if count == 1 else 's'}: {EFFECTS[effect]}")
    if answer.order is not None:
        _print_order(answer)
    print("safe, as far as the evidence goes" if answer.safe else "not safe")
    for text in answer.unknown.values():
        print(f"not known: {text}")


def _print_order(answer: Answer) -> None:
    first = "safe order to restart all brokers" if not answer.stuck else "these can be restarted safely, in this order"
    print(f"{first}: {', '.join(map(str, answer.order or ())) or 'none'}")
    print("each must be back in the ISR of all its partitions before the next one stops")
    for broker, rows in answer.stuck.items():
        row = _worst_first(rows)[0]
        place, more = (
            printable(f"{row['topic']}-{row['partition']}"),
            len({(r["topic"], r["partition"]) for r in rows}) - 1,
        )
        also = f", and {more} more partitions" if more else ""
        print(f"broker {broker} cannot be stopped: {place} {EFFECTS[_worst(row)]}{also}")


def _worst(row: dict[str, Any]) -> str:
    return min(row["effects"], key=list(EFFECTS).index)


def _worst_first(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: min((list(EFFECTS).index(e) for e in row["effects"]), default=len(EFFECTS)))


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    leaders = [("none" if n < 0 else str(n)) for n in (row["recorded_leader"], row["leader"])]
    return {
        "step": row["step"],
        "partition": f"{row['topic']}-{row['partition']}",
        "leader": leaders[0] if leaders[0] == leaders[1] else " -> ".join(leaders),
        "isr": ",".join(map(str, row["isr"])),
        "elr": ",".join(map(str, row["elr"])),
        "effects": ", ".join(row["effects"]),
        "lost at most": "no bound" if row["loss_max"] is None else row["loss_max"],
        "if": row["condition"],
    }
