"""The answer of a cluster: proven losses are summed, everything else stays unknown and says what is missing."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from replay.arrow.schemas import FINDINGS
from replay.findings.statements import SENTENCES, statement
from replay.incident.answer import COLUMNS, MOST_WINDOWS, AnswerScope, answer, proven_text, undecided_text
from replay.incident.missing import CapturedLogs
from replay.incident.words import MISSING
from tests.support.report_rows import START_MS, finding
from tests.support.window_table import stories

LEANING = {"likely_rule": "a rule", "likely_right": 3, "likely_of": 4}
GAP = {"rule": "offset_gap", "explanation": "offsets 4 to 9 are in no captured file"}


def window(kind: str, number: int, words: list[str]) -> dict[str, Any]:
    """A window of report_rows. words: what differs; times are seconds after START_MS; `said`: codes@brokers."""
    lost = {"proven": (70, 70), "excluded": (0, 0), "open": (0, None)}[kind]
    row: dict[str, Any] = {"verdict": {"open": "possible"}.get(kind, kind), "loss_min": lost[0], "loss_max": lost[1]}
    row |= {"reason": [statement("missing_high_watermark_ceiling", [3])]} if kind == "open" else {}
    for name, text in (word.split("=", 1) for word in words):
        value = None if text == "-" else int(text) if text.isdigit() else text
        if name == "topic":
            row["topic"], row["topic_id"] = text.encode().decode("unicode_escape").split("/")
        elif name == "end":
            row["end_timestamp_ms"] = None if value is None else START_MS + value * 1000
        elif name == "deleted":
            row["reason"] = [statement("deleted_before", [3], value=value)]
        elif name == "said":
            codes = (code.split("@") for code in text.split(",") if code)
            row["reason"] = [statement(code, [int(of)] if of else None, leader_epoch=2) for code, of in codes]
        elif name == "likely":
            row |= {"likely": value, **LEANING}
        else:
            row[{"min": "loss_min", "max": "loss_max", "election": "election_offset"}.get(name, name)] = value
    return finding(str(number), **row)


def answered(items: list[str]) -> dict[str, Any]:
    scope: dict[str, Any] = {"gaps": [], "gap_count": 0, "conflicts": [], "states": 9, "until_ms": None}
    windows: list[dict[str, Any]] = []
    logs, booted = {}, ()
    for word, *words in (item.split() for item in items):
        kind, _, count = word.partition("*")
        if kind in ("proven", "excluded", "open"):
            windows += (window(kind, len(windows) + n, words) for n in range(int(count or 1)))
        elif word == "gap":
            scope |= {"gaps": [GAP], "gap_count": int(words[0])}
        elif word == "conflict":
            scope["conflicts"] = ["log_conflict"]
        elif word == "no":
            scope["states"] = 0
        elif word == "logs":  # of the windows' time, and of a while before and after
            logs = dict.fromkeys(map(int, words[0].split(",")), (START_MS - 1, START_MS + 60_000))
        elif word == "booted":
            booted = tuple(map(int, words))
    table = pa.Table.from_pylist(windows, schema=FINDINGS).select(COLUMNS)
    return answer(table, AnswerScope(**scope, logs=CapturedLogs(logs, booted)))


def printed(found: dict[str, Any], shown: set[str]) -> Iterator[str]:
    least, most = ((found["lost"] or {}).get(f"records_{side}") for side in ("min", "max"))
    yield (
        f"-> {found['status']}"
        + (f" {least}..{'' if most is None else most}" if found["lost"] else "")
        + ("" if found["complete"] else ", incomplete")
    )
    yield from found["text"]
    if "undecided" in shown:
        yield from (f"undecided: {undecided_text(row)}" for row in found["undecided"])
    if "proven" in shown:
        yield from (f"proven: {proven_text(row)}" for row in found["proven"])
    names = {"missing": ("code", "windows", "brokers", "capture", "capture_windows", "logged")}
    names |= {"topics": ("topic", "topic_id", "records_min", "records_max", "proven", "partitions_lost")}
    for key in shown & set(names):
        yield from (f"{key}: " + ", ".join(f"{name} {row[name]}" for name in names[key]) for row in found[key])


@pytest.mark.parametrize(("items", "shown", "expected"), stories(__file__))
def test_the_answer_of(items: list[str], shown: set[str], expected: list[str]) -> None:
    assert list(printed(answered(items), shown)) == expected


def test_every_statement_about_missing_evidence_is_known() -> None:
    assert {code for code in SENTENCES if code.startswith("missing_")} == set(MISSING) - {"bounds_open"}


def test_figures_of_damaged_files_do_not_overflow() -> None:
    most = 2**63 - 1
    found = answered([f"proven min={most} max={most} start_timestamp_ms={most}", f"proven min={most}"])
    assert found["lost"]["records_min"] == 2 * most
    assert "between 2023-11-14" in found["text"][0] or "an unknown time" in found["text"][0]


def test_lists_are_bounded_and_say_how_many_there_are() -> None:
    found = answered([f"open*{MOST_WINDOWS + 5}"])
    assert (len(found["undecided"]), found["undecided_windows"]) == (MOST_WINDOWS, MOST_WINDOWS + 5)
