"""The rows of the incident report: how many are shown, the verdicts as the page shows them (templates/words.toml), and
how rows are grouped.

Pure. jobs/report/load.py loads the rows, jobs/report/page.py renders the page.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from operator import itemgetter
from typing import Any

from replay.arrow.runs import groups
from replay.findings.kinds import LAST_REPLICA, LEADERLESS
from replay.loss.verdicts import UNDETERMINED

Row = dict[str, Any]

# A section shows at most this many rows, so many details, a detail so many states, a finding so many statements of its
# reason. The page states how many it leaves out, and which command lists them.
MAX_LISTED = 300
MAX_DETAILS = 50
MAX_STATES = 60
MAX_STATEMENTS = 40
MAX_SESSIONS = 100  # rows of a broker's history, the last ones
WORDS: dict[str, Any] = tomllib.loads(files("jobs.report.templates").joinpath("words.toml").read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict as the page shows it. symbol: makes it readable without colour."""

    name: str
    symbol: str
    meaning: str


VERDICTS = tuple(Verdict(name, *about) for name, about in WORDS["verdicts"].items())
_BY_NAME = {verdict.name: verdict for verdict in VERDICTS}


def verdict_of(row: Mapping[str, Any]) -> Verdict:
    """The verdict of a finding; null is undetermined."""
    return _BY_NAME[row["verdict"] or UNDETERMINED]


def counted(groups: Iterable[Mapping[str, Any]], column: str, names: Iterable[str]) -> dict[str, int]:
    """Number of findings for each value of a column. groups: rows with that and `findings`; names: all its values."""
    counts = dict.fromkeys(names, 0)
    for group in groups:
        counts[group[column]] += group["findings"]
    return counts


_ANSWER = ("outcome", "leader", "last_written_leader_epoch", "log_end_offset", "loss_min", "loss_max", "explanation")
EXPOSURE_NAMES = {LEADERLESS: "without a leader", LAST_REPLICA: "one replica left"}


def same_answers(counterfactuals: Iterable[Row]) -> list[Row]:
    """Equal answers as one row with all their `policies`."""
    same = groups(counterfactuals, itemgetter(*_ANSWER)).values()
    return [group[0] | {"policies": [row["policy"] for row in group]} for group in same]


def restarts(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of a broker's history where another process of it registered."""
    processes = [row for row in rows if row["incarnation_id"] is not None]
    return [now for before, now in pairwise(processes) if now["incarnation_id"] != before["incarnation_id"]]


def broker_state(row: Mapping[str, Any]) -> str:
    """What a broker was, in a word or two."""
    if row["incarnation_id"] is None:
        return "not registered"
    if row["fenced"]:
        return "fenced"
    return "shutting down" if row["in_controlled_shutdown"] else "up"
