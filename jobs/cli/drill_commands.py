"""`drill`: break a real Kafka and score the verdicts. Needs Java and Maven (docs/drill.md)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from evidence.errors import KraftForensicsError
from evidence.wire.schemas import RELEASE
from jobs.console.log import ERROR, log
from jobs.console.output import printable, show_message


def drill(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(
            help="Bundled scenarios, TOML files, or folders of drills, which are scored again; without any, the "
            "bundled ones' names."
        ),
    ] = None,
    release: Annotated[str, typer.Option("--release", help="Kafka's release; Maven fetches its jars.")] = RELEASE,
    seed: Annotated[int, typer.Option("--seed", help="Of faults by chance.")] = 1,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Drills of each scenario, each with the next seed.")] = 1,
    out: Annotated[
        Path, typer.Option("--out", help="Folder for each drill's captures, lakes and page, and the results of all.")
    ] = Path("drills"),
    jars: Annotated[Path, typer.Option("--jars", help="Folder for Kafka's jars.")] = Path(".kafka/drill"),
    scores: Annotated[
        Path | None, typer.Option("--scores", help="File with a line for each drill, by default OUT/results.jsonl.")
    ] = None,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan", help="After each scenario all brokers go down by chance, and the product's plan is followed."
        ),
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Leave out drills that the scores have already.")] = False,
    page: Annotated[
        Path | None, typer.Option("--page", help="A Markdown page whose tables are renewed from the scores.")
    ] = None,
) -> None:
    """Break a real Kafka cluster on this machine, capture it, and compare the verdicts with what was lost.

    Starts three controllers and four brokers on loopback and ends them. Exit code 1 if a drill failed or a claim was
    wrong.
    """
    from drill.errors import DrillError
    from drill.page import page as page_of
    from drill.page import renew
    from drill.run import TRUTH, play_and_score, score_again
    from drill.scenario import read_scenario, scenario_names
    from drill.scores import RESULTS, append, key_of, read_scores

    if not scenarios and page is None:
        for name in scenario_names():
            typer.echo(f"{name}: {read_scenario(name).title}")
        return
    out.mkdir(parents=True, exist_ok=True)
    kept, bad = scores or out / RESULTS, 0
    known = {key_of(row) for row in read_scores(kept)} if resume else set()
    played = [Path(name) for name in scenarios or () if (Path(name) / TRUTH).exists()]
    for folder in played:
        result = score_again(folder)
        append(kept, result)
        bad += _told(folder, result)
    for name in (name for name in scenarios or () if Path(name) not in played):
        scenario = read_scenario(name).with_plan() if plan else read_scenario(name)
        for number in range(seed, seed + runs):
            if (scenario.name, release, number) in known:
                continue
            folder = out / f"{scenario.name}-{release}-{number}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
            try:
                result = play_and_score(scenario, release, number, jars, folder, _say)
            except DrillError as error:  # of this drill: the next one may succeed
                log(str(error), ERROR)
                bad += 1
                continue
            append(kept, result)
            (folder / "drill.md").write_text(page_of(result, scenario), encoding="utf-8")
            bad += _told(folder, result)
    if page is not None:
        renew(page, read_scores(kept))
    if bad:
        raise typer.Exit(KraftForensicsError.exit_code)


def _told(folder: Path, result: Mapping[str, Any]) -> int:
    """Print a drill's result, and return how much of it is wrong."""
    wrong = len(result["wrong"]) + (not result["as_expected"])
    typer.echo(f"{folder / 'drill.md'}: {sum(result['lost'].values())} records lost, {wrong} wrong")
    return wrong


def _say(line: str) -> None:
    show_message(printable(line))
