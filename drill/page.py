"""Pages about drills: one of each drill, and the table of all releases for docs/drill.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from drill.errors import DrillError
from drill.scenario import Scenario, version
from drill.score import BOUNDS, DECIDED, EXCLUDED, FIRST, MISMATCH, PROVEN, STATE

Results = Sequence[Mapping[str, Any]]
_COLUMNS = ["partition", "election_offset", "recorded_leader", "verdict", "loss_min", "loss_max", "first_lost_offset"]
_ONCE, _SCHEDULED, _KILLS = "one capture", "a schedule", "no power loss"
_RARE = 0.05  # a statement of a smaller share of the windows has no row
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
    yield from _plan(result["plan"]) if "plan" in result else ()
    yield from _told(result["watch"]) if "watch" in result else ()
    if "salvage" in result:
        yield "\n## What was got back\n"
        yield ", ".join(f"{name}: {count}" for name, count in result["salvage"].items())
    yield "\n## What the verdicts are\n"
    yield from _table(
        ("partition", "election at", "new leader", "verdict", "lost at least", "at most", "from offset"),
        ([_shown(row[name]) for name in _COLUMNS] for row in result["windows"]),
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


def _plan(plan: Mapping[str, Any]) -> Iterator[str]:
    """plan: what drill.follow.Followed.as_json returns."""
    yield "\n## How the plan ended\n"
    yield f"Steps: {', '.join(plan['steps'])}. Brokers: {', '.join(map(str, plan['brokers'])) or 'none'}.\n"
    ends = (("the plan", plan), ("all brokers at once", plan["careless"]))
    yield from _table(
        ("order", f"lost of {plan['held']} records", "partitions without a leader"),
        ([name, _losses(end["lost"]), ", ".join(end["leaderless"]) or "none"] for name, end in ends if end),
    )


def _told(watch: Mapping[str, Any]) -> Iterator[str]:
    """watch: what drill.watched.compared returns."""
    yield "\n## What `watch` told\n"
    rows = (
        [
            f"{datetime.fromtimestamp(a['timestamp_ms'] / 1000, UTC):%H:%M:%S}",
            f"{(a['seen_ms'] - a['timestamp_ms']) / 1000:.1f}",
            a["kind"],
            "" if a["topic"] is None else f"{a['topic']}-{a['partition']}",
            a["text"],
        ]
        for a in watch["told"]
    )
    yield from _table(("at", "delay (s)", "alarm", "partition", "what"), rows)


def _losses(lost: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in lost.items()) or "none"


def _wrong(*kinds: str) -> Callable[[Results], int]:
    return lambda results: sum(w["kind"] in kinds for r in results for w in r["wrong"])


def _found(results: Results, begins: tuple[str, ...], suffix: str = "") -> int:
    return sum(verdict.startswith(begins) for r in results for verdict in r[f"found{suffix}"].values())


# The columns of tables: what a group of results has.
_FIGURES: dict[str, Callable[[Results], Any]] = {
    "drills": len,
    "windows": lambda results: _summed(results, "verdicts").total(),
    "decided": lambda results: _decided(_summed(results, "verdicts")),
    "without logs": lambda results: _decided(_summed(results, "verdicts_without_logs")),
    "lost records": lambda results: _summed(results, "lost").total(),
    "partitions with losses": lambda results: _found(results, ("",)),
    "proven": lambda results: _found(results, ("proven",)),
    "missed": lambda results: _found(results, ("excluded", "no window")),
    "wrong proven": _wrong(PROVEN),
    "wrong excluded": _wrong(EXCLUDED),
    "wrong bounds": _wrong(BOUNDS, FIRST),
    "other contradictions": _wrong(MISMATCH),
    "states": lambda results: sum(r["states"] for r in results),
    "differ": _wrong(STATE),
    "wrong claims": lambda results: sum(len(r["wrong"]) for r in results),
    "not as expected": lambda results: sum(not r["as_expected"] for r in results),
}
_OF_SCENARIOS = ("drills", "windows", "decided", "lost records", "wrong claims", "not as expected")
_OF_RELEASES = tuple(name for name in _FIGURES if name not in _OF_SCENARIOS[3:])


def league(results: Results) -> str:
    """A line for each release, and one for all. results: as drill.score.read_scores returns them."""
    return _figures(("Kafka",), [([name], of) for name, of in _groups(results, "release")], _OF_RELEASES)


def _groups(results: Results, key: str) -> list[tuple[str, Results]]:
    """The results of each scenario or of each release (key), and of all."""
    names = sorted({r[key] for r in results}, key=version if key == "release" else None)
    return [*((name, [r for r in results if r[key] == name]) for name in names), ("all", results)]


def scenarios_table(results: Results) -> str:
    """A line for each scenario, with the releases that played it; those whose plan was followed are in plans_table, and
    those in which nothing happened that could be judged are named below."""
    groups = _by_scenario([r for r in results if "plan" not in r], results)
    quiet = [(names, of) for names, of in groups if _is_quiet(of)]
    table = _figures(("scenario", "Kafka"), [group for group in groups if group not in quiet], _OF_SCENARIOS)
    named = ", ".join(names[0] for names, _ in quiet)
    drills = sum(len(of) for _, of in quiet)
    return f"{table}\n\nNo window, and nothing lost or wrong: {named} ({drills} drills)." if quiet else table


def _is_quiet(results: Results) -> bool:
    """Whether drills have no window, lost no record and were as expected, without a wrong claim."""
    return not any(r["verdicts"] or r["lost"] or r["wrong"] or not r["as_expected"] for r in results)


def _by_scenario(results: Results, every: Results) -> list[tuple[list[str], Results]]:
    """The results of each scenario, with its name and its releases. every: all results, of which "all" releases are."""
    return [([name, _releases(of, every)], of) for name, of in _groups(results, "scenario")[:-1]]


def _releases(results: Results, every: Results) -> str:
    """The minor releases of the results: the first and the last one, if none that was played is missing between."""
    found, known = _minors(results), _minors(every)
    if len(found) > 2 and found == known[known.index(found[0]) : known.index(found[-1]) + 1]:
        return "all" if found == known else f"{found[0]} to {found[-1]}"
    return "all" if found == known else ", ".join(found)


def _minors(results: Results) -> list[str]:
    return sorted({".".join(r["release"].split(".")[:2]) for r in results}, key=version)


def plans_table(results: Results) -> str:
    """A line for each scenario whose plan was followed, and one for all. The careless order counts where it could be
    compared. Empty if no plan was followed."""
    followed = [r for r in results if "plan" in r]
    if not followed:
        return ""
    figures = ("drills", "windows", "decided", "wrong claims", "not as expected")
    heads = ("records", "lost by the plan", "without a leader after it")
    compared = ("compared", "records lost by all at once", "drills in which it lost some")
    rows = [
        [name, *(str(_FIGURES[figure](of)) for figure in figures), *map(str, _ends([r["plan"] for r in of]))]
        for name, of in _groups(followed, "scenario")
    ]
    return "\n".join(["### Plans followed", "", *_without_zeros(("scenario", *figures, *heads, *compared), rows)])


def salvage_table(results: Results) -> str:
    """A line for each scenario whose kept disks were salvaged, and one for all. Empty if there is none."""
    salvaged = [r for r in results if "salvage" in r]
    if not salvaged:
        return ""
    heads = {
        "lost": "lost records",
        "found": "of them salvaged",
        "salvaged": "salvaged in all",
        "live": "by the running cluster, too",
        "again": "produced again and read back",
        "below": "below the high watermark for certain",
    }
    rows = [
        [name, str(len(of)), *(str(sum(r["salvage"].get(key, 0) for r in of)) for key in heads)]
        for name, of in _groups(salvaged, "scenario")
    ]
    table = _table(("scenario", "drills", *heads.values()), rows)
    return "\n".join(["### Records got back", "", *table])


def _ends(plans: Results) -> tuple[int, ...]:
    careless = [plan["careless"] for plan in plans if plan["careless"]]
    lost, lost_at_once = _summed(plans, "lost").total(), _summed(careless, "lost").total()
    leaderless = sum(len(plan["leaderless"]) for plan in plans)
    held = sum(plan["held"] for plan in plans)
    return held, lost, leaderless, len(careless), lost_at_once, sum(bool(end["lost"]) for end in careless)


def ahead_table(results: Results) -> str:
    """A line for each release on which steps were predicted, and one for all. Empty without any."""
    asked = [r for r in results if "ahead" in r]
    if not asked:
        return ""
    rows = [[name, *map(str, _predicted([r["ahead"] for r in of]))] for name, of in _groups(asked, "release")]
    heads = (
        "Kafka",
        "steps",
        "right",
        "in an order of `--restart-all`",
        "that change something",
        "not safe",
        "elected uncleanly, as said",
        "lost records",
    )
    return "\n".join(["### Steps predicted with `ahead`", "", *_table(heads, rows)])


def _predicted(drills: Sequence[Results]) -> tuple[int | str, ...]:
    steps = [step for of in drills for step in of]
    right = [not step["wrong"] for step in steps]
    unclean = [step for step in steps if step["unclean"]]
    lost = sum(max((sum(step["lost"].values()) for step in of), default=0) for of in drills)
    unsafe = sum(not step["safe"] for step in steps)
    in_order = sum(step.get("in_order", False) for step in steps)
    changed = sum(s["changed"] > 0 for s in steps)
    return len(steps), _share(sum(right), len(steps)), in_order, changed, unsafe, len(unclean), lost


def watch_table(results: Results) -> str:
    """A line for each drill under `watch`. Empty without any."""
    figures: dict[str, Callable[[Mapping[str, Any]], Any]] = {
        "alarms": lambda w: w["alarms"],
        "withdrawn": lambda w: w["withdrawn"],
        "kills of the watch": lambda w: w["kills"],
        "missed, false or twice": lambda w: w["missed"] + w["false"] + w["twice"],
        "states": lambda w: w["states"],
        "differ": lambda w: w["states_differ"] + w["history_lacks"],
        "median delay": lambda w: f"{w['median_delay_ms'] / 1000:.1f} s",
        "longest": lambda w: f"{w['longest_delay_ms'] / 1000:.1f} s",
    }
    watched = [r for r in results if "watch" in r]
    rows = [
        [r["scenario"], r["release"], str(r["seed"]), *(str(of(r["watch"])) for of in figures.values())]
        for r in watched
    ]
    heads = ("scenario", "Kafka", "seed", *figures)
    return "\n".join(["### Drills under `watch`", "", *_table(heads, rows)]) if rows else ""


def evidence_tables(results: Results) -> str:
    """Of drills by chance, by the evidence that they had: how much was decided and proven, and what open windows
    lack. The last capture is after the incident; results from before drills noted their number count nowhere."""
    noted = [r for r in results if r["scenario"].startswith("random") and "captures" in r]
    groups = [
        (f"{when}, {logs}", suffix, [r for r in noted if _evidence_of(r) == when])
        for when in (_ONCE, _KILLS, _SCHEDULED)
        for logs, suffix in (("with nodes' logs", ""), ("without", "_without_logs"))
    ]
    columns, lacking = [], []
    for _, suffix, of in groups:
        verdicts, losses = _summed(of, f"verdicts{suffix}"), _found(of, ("",), suffix)
        proven = _share(_found(of, ("proven",), suffix), losses)
        columns.append([str(len(of)), str(verdicts.total()), _decided(verdicts), str(losses), proven])
        lacking.append((_summed(of, f"open{suffix}"), verdicts.total()))
    names = ("drills", "windows", "decided", "partitions with losses", "proven")
    rows = [[name, *figures] for name, *figures in zip(names, *columns, strict=True)]
    codes = sorted({code for counts, _ in lacking for code in counts}, key=lambda code: (-lacking[0][0][code], code))
    frequent = [code for code in codes if any(counts[code] >= _RARE * total > 0 for counts, total in lacking)]
    rows += [[f"`{code}`", *(_share(counts[code], total) for counts, total in lacking)] for code in frequent]
    return "\n".join(_table(("evidence", *(name for name, _, _ in groups)), rows))


def _evidence_of(result: Mapping[str, Any]) -> str:
    if result["captures"] > 1:
        return _SCHEDULED
    return _KILLS if result["scenario"] == "random_kills" else _ONCE


def _figures(head: Sequence[str], groups: Iterable[tuple[list[str], Results]], columns: Sequence[str]) -> str:
    rows = [[*names, *(str(_FIGURES[column](of)) for column in columns)] for names, of in groups]
    return "\n".join(_without_zeros((*head, *columns), rows))


def _without_zeros(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table; its columns that are 0 in every row are named below it."""
    zero = [{row[i] for row in rows} == {"0"} for i in range(len(names))]
    yield from _table(
        [name for name, is_zero in zip(names, zero, strict=True) if not is_zero],
        ([cell for cell, is_zero in zip(row, zero, strict=True) if not is_zero] for row in rows),
    )
    if any(zero):
        yield f"\n0 in every row: {', '.join(name for name, is_zero in zip(names, zero, strict=True) if is_zero)}."


def _summed(results: Results, name: str) -> Counter[str]:
    return sum((Counter(r[name]) for r in results), Counter[str]())


def _share(part: int, total: int) -> str:
    return f"{100 * part / total:.0f} %" if total else "-"


def commits(results: Results) -> str:
    """On how many commits they were played, and when the last one was."""
    played = {r.get("commit") for r in results}
    return f"Played on {len(played)} commits, the last one at {max((r['at'] for r in results), default='-')}."


def renew(file: Path, results: Results) -> None:
    """Replace the tables between the markers of a page. Errors: DrillError if it has none."""
    text = file.read_text(encoding="utf-8")
    head, begin, rest = text.partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    if not begin or not end:
        raise DrillError(f"{file}: the lines {_BEGIN!r} and {_END!r}, between which the tables go, are missing")
    made = (
        make(results)
        for make in (
            league,
            evidence_tables,
            scenarios_table,
            commits,
            plans_table,
            ahead_table,
            watch_table,
            salvage_table,
        )
    )
    tables = "\n\n".join(filter(None, made))
    file.write_text(f"{head}{begin} -->\n\n{tables}\n\n{end}{tail}", encoding="utf-8")


def _decided(verdicts: Mapping[str, int]) -> str:
    return _share(sum(verdicts.get(name, 0) for name in DECIDED), sum(verdicts.values()))


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _shown(value: Any) -> str:
    return "" if value is None else str(value)
