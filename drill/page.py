"""Pages about drills: one of each drill, and the table of all releases for docs/drill.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from drill.errors import DrillError
from drill.scenario import Scenario, version
from drill.score import BOUNDS, EXCLUDED, FIRST, MISMATCH, PROVEN, STATE

Row = dict[str, Any]
_DECIDED = ("proven", "excluded")
_BEGIN, _END = "<!-- drills: made by `kraft-forensics drill --page`", "<!-- end of drills -->"


def page(result: Mapping[str, Any], scenario: Scenario) -> str:
    """One drill as Markdown. result: what drill.run.play_and_score returns."""
    return "\n".join(_page(result, scenario)) + "\n"


def _page(result: Mapping[str, Any], scenario: Scenario) -> Iterator[str]:
    yield f"# {scenario.title}"
    yield f"\n{scenario.story.strip()}"
    yield f"\nScenario `{result['scenario']}`, Kafka {result['release']}, seed {result['seed']}, {result['at']}."
    yield "\n## What was done\n"
    for at_ms, text in result["journal"]:
        yield f"- {datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M:%S} {text}"
    records = result["records"]
    yield "\n## What was lost\n"
    yield f"Acknowledged: {records.get('all', 0)} records with acks=all, {records.get('1', 0)} with acks=1."
    yield f"The client does not know the fate of {records.get('unknown', 0)}.\n"
    for partition, count in result["lost"].items():
        verdict = result["found"][partition]
        yield f"- {partition}: {count} records acknowledged with acks=all are gone. Verdict: {verdict}"
    if not result["lost"]:
        yield "Nothing that was acknowledged with acks=all."
    yield "\n## What the verdicts are\n"
    yield from _table(
        ("partition", "election at", "new leader", "verdict", "lost at least", "at most", "from offset"),
        (
            [
                row["partition"],
                _shown(row["election_offset"]),
                _shown(row["recorded_leader"]),
                row["verdict"],
                _shown(row["loss_min"]),
                _shown(row["loss_max"]),
                _shown(row["first_lost_offset"]),
            ]
            for row in result["windows"]
        ),
    )
    decided, without = (_decided(result[name]) for name in ("verdicts", "verdicts_without_logs"))
    yield f"\nDecided: {decided} of the windows, {without} without brokers' own logs."
    yield f"States compared with what Kafka described: {result['states']}.\n"
    yield "As expected." if result["as_expected"] else f"**Expected was that {scenario.expected.lost} lose records.**"
    yield "\n## What is wrong\n"
    for wrong in result["wrong"]:
        logs = "" if wrong["logs"] else " (without logs)"
        yield f"- {wrong['kind']}{logs}: {wrong['partition']}: {wrong['text']}"
    if not result["wrong"]:
        yield "Nothing: no claim contradicts what the drill knows."


def league(results: Sequence[Mapping[str, Any]]) -> str:
    """A line for each release, and one for all. results: as drill.scores.read_scores returns them."""
    releases = sorted({r["release"] for r in results}, key=version)
    groups = [(release, [r for r in results if r["release"] == release]) for release in releases]
    figures = ("drills", "windows", "decided", "without logs", "partitions with losses", "proven", "missed")
    claims = ("wrong proven", "wrong excluded", "wrong bounds", "other contradictions", "states", "differ")
    names = ("Kafka", *figures, *claims)
    return "\n".join(_table(names, [_line(*group) for group in (*groups, ("all", list(results)))]))


def _line(name: str, results: Sequence[Mapping[str, Any]]) -> list[str]:
    verdicts, without, wrong = (Counter[str]() for _ in range(3))
    found: list[str] = []
    for result in results:
        verdicts.update(result["verdicts"])
        without.update(result["verdicts_without_logs"])
        wrong.update(w["kind"] for w in result["wrong"])
        found += result["found"].values()
    proven = sum(verdict.startswith("proven") for verdict in found)
    missed = sum(verdict.startswith(("excluded", "no window")) for verdict in found)
    figures = (len(results), verdicts.total(), _decided(verdicts), _decided(without), len(found), proven, missed)
    claims = (wrong[PROVEN], wrong[EXCLUDED], wrong[BOUNDS] + wrong[FIRST], wrong[MISMATCH])
    states = (sum(r["states"] for r in results), wrong[STATE])
    return [name, *map(str, (*figures, *claims, *states))]


def scenarios_table(results: Sequence[Mapping[str, Any]]) -> str:
    """A line for each scenario and release."""
    rows = sorted(results, key=lambda r: (r["scenario"], version(r["release"]), r["seed"]))
    names = ("scenario", "Kafka", "seeds", "windows", "decided", "lost records", "wrong claims", "as expected")
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["scenario"], row["release"]), []).append(row)
    return "\n".join(_table(names, [_group(*key, group) for key, group in groups.items()]))


def _group(scenario: str, release: str, results: Sequence[Mapping[str, Any]]) -> list[str]:
    verdicts = sum((Counter(r["verdicts"]) for r in results), Counter[str]())
    figures = (len(results), verdicts.total(), _decided(verdicts), sum(sum(r["lost"].values()) for r in results))
    met = f"{sum(r['as_expected'] for r in results)} of {len(results)}"
    return [scenario, release, *map(str, figures), str(sum(len(r["wrong"]) for r in results)), met]


def commits(results: Sequence[Mapping[str, Any]]) -> str:
    """On which commits they were played, and when the last one was."""
    counts = Counter(r.get("commit") or "unknown" for r in results)
    told = ", ".join(f"{commit} ({count})" for commit, count in counts.items())
    return f"Drills by commit: {told or 'none'}. The last one: {max((r['at'] for r in results), default='-')}."


def renew(file: Path, results: Sequence[Mapping[str, Any]]) -> None:
    """Replace the tables between the markers of a page. Errors: DrillError if it has none."""
    text = file.read_text(encoding="utf-8")
    head, begin, rest = text.partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    if not begin or not end:
        raise DrillError(f"{file}: the lines {_BEGIN!r} and {_END!r}, between which the tables go, are missing")
    tables = f"{league(results)}\n\n{scenarios_table(results)}\n\n{commits(results)}"
    file.write_text(f"{head}{begin} -->\n\n{tables}\n\n{end}{tail}", encoding="utf-8")


def _decided(verdicts: Mapping[str, int]) -> str:
    total = sum(verdicts.values())
    return f"{100 * sum(verdicts.get(name, 0) for name in _DECIDED) / total:.0f} %" if total else "-"


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _shown(value: Any) -> str:
    return "" if value is None else str(value)
