"""Commands that need no lake: `inspect`, `conformance`, `setup`, `doctor`, `config`, `bench`, and `drill`, which needs
Java and Maven (docs/drill.md)."""

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from evidence.errors import KraftForensicsError
from evidence.wire.schemas import RELEASE
from jobs.console.log import ERROR, show_message
from jobs.console.options import DEFAULT_LAKE
from jobs.console.output import Format, print_rows, say

_PACKAGES = ("evidence", "replay", "jobs", "quality", "kraft_forensics")


def config_show(form: Format = Format.TABLE) -> None:
    """Show every effective setting and where it comes from: the defaults, a file or an environment variable."""
    from jobs.config.settings import effective_settings

    rows = effective_settings()
    if form is Format.TABLE:  # long names and values, to copy
        for row in rows:
            print(f"{row['setting']} = {json.dumps(row['value'])}  # {row['origin']}")
    else:
        print_rows(list(rows[0]), rows, form)


def bench(log: Path, runs: int = 5, form: Format = Format.TABLE) -> None:
    """Time the stages on a log (read, hash, check, decode, replay), each in its own process. Starts no JVM."""
    from bench.own import COLUMNS, measure_log

    print_rows(COLUMNS, measure_log(log, runs, show_message), form)


def inspect(files: list[Path], show_secrets: bool = False) -> None:
    """Print the records of metadata files, one JSON object per line; damage has an `error` field. Starts no JVM."""
    from evidence.metadata_log.inspect import print_file

    failed = False
    for file in files:
        sys.stdout.flush()
        if not print_file(file, sys.stdout.buffer, show_secrets) and file.stat().st_size:
            show_message(f"{file}: holds no record of the metadata log. Give a segment (.log) or a snapshot.", ERROR)
            failed = True
    if failed:
        raise typer.Exit(KraftForensicsError.exit_code)


def coordinator(
    names: list[str] | None = None, partitions: int = 50, only: str = "", form: Format = Format.TABLE
) -> None:
    """Show which partition of __consumer_offsets or __transaction_state holds an id. Starts no JVM."""
    from replay.plan.clients import coordinator_partition

    wanted = {part.strip() for part in only.split(",") if part.strip()}
    if not all(part.isascii() and part.isdecimal() for part in wanted):
        raise typer.BadParameter(f"{only!r} is not a list of partitions, e.g. 0,12")
    given = names or [line.rstrip("\r\n") for line in sys.stdin]
    rows = [{"id": name, "partition": coordinator_partition(name, partitions)} for name in given if name]
    print_rows(("id", "partition"), [row for row in rows if not wanted or str(row["partition"]) in wanted], form)


def conformance(cases: list[Path], profile: str | None = None) -> None:
    """Predict what a controller writes in each case and compare it with the output of Kafka's own class.

    Starts no JVM.
    """
    from jobs.queries.conformance import check_cases, named_profile

    rules = named_profile(profile)
    checked = differ = 0
    for file, results in [(file, check_cases(file, rules)) for file in cases]:
        differing = [(line, difference) for line, difference in results if difference is not None]
        for line, difference in differing[:5]:
            show_message(f"{file}: line {line}: {json.dumps(difference)}")
        checked, differ = checked + len(results), differ + len(differing)
    typer.echo(f"{checked - differ} matched, {differ} differ")
    if differ:
        raise typer.Exit(1)


def setup(s3: bool = False, source: Path | None = None) -> None:
    """Fetch the jars that Spark needs, with Maven, check their SHA-256, and compile what would be compiled later."""
    from compileall import compile_dir

    from evidence.metadata_log.compiled_reader import compile_loops
    from jobs.config.jars import delta_jars, install, s3_jars
    from jobs.config.settings import load_settings
    from jobs.report.rendering import compile_page

    spark = load_settings().spark
    wanted = [(delta_jars(), spark.jars_path()), *([(s3_jars(), spark.s3_jars_path())] if s3 else [])]
    is_new = not spark.classes_path().is_file()
    for jars, folder in wanted:
        installed = install(jars, folder, source)
        typer.echo(f"{len(jars.sha256)} jars in {folder}, SHA-256 as listed{'' if installed else ', as before'}")
        is_new |= installed
    compile_loops()
    compile_page()
    for package in _PACKAGES:  # also where Python is told to write no bytecode by itself
        compile_dir(Path(__file__).parents[2] / package, quiet=2)
    if is_new:
        from jobs.spark.session import keep_classes  # starts with PySpark, which takes seconds

        keep_classes(spark)


def doctor(lake: Any = DEFAULT_LAKE, form: Format = Format.TABLE) -> None:
    """Check Java, packages, jars, disk and permissions."""
    from jobs.config.doctor import FAILED, run_checks
    from jobs.config.settings import load_settings
    from jobs.lake.storage import check_root

    check_root(lake)
    rows = run_checks(load_settings(), lake)
    print_rows(list(rows[0]), rows, form)
    if any(row["ok"] == FAILED for row in rows):
        raise typer.Exit(1)


def drill(
    scenarios: list[str] | None = None,
    release: str = RELEASE,
    seed: int = 1,
    runs: int = 1,
    out: Path = Path("drills"),
    jars: Path = Path(".kafka/drill"),
    scores: Path | None = None,
    plan: bool = False,
    resume: bool = False,
) -> None:
    """Break a real Kafka cluster on this machine, capture it, and compare the verdicts with what was lost.

    Starts three controllers and four brokers on loopback and ends them. Exit code 1 if a drill failed or a claim was
    wrong.
    """
    from drill.errors import DrillError
    from drill.run import TRUTH, page, play_and_score, score_again
    from drill.scenario import read_scenario, scenario_names
    from drill.score import RESULTS, append, key_of, read_scores

    if not scenarios:
        for name in scenario_names():
            typer.echo(f"{name}: {read_scenario(name).title}")
        return
    out.mkdir(parents=True, exist_ok=True)
    kept, bad = scores or out / RESULTS, 0
    known = {key_of(row) for row in read_scores(kept)} if resume else set()
    played = [Path(name) for name in scenarios if (Path(name) / TRUTH).exists()]
    for folder in played:
        result = score_again(folder)
        append(kept, result)
        bad += _told(folder, result)
    for name in (name for name in scenarios if Path(name) not in played):
        scenario = read_scenario(name, plan)
        for number in range(seed, seed + runs):
            if (scenario.name, release, number) in known:
                continue
            folder = out / f"{scenario.name}-{release}-{number}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
            try:
                result = play_and_score(scenario, release, number, jars, folder, say)
            except DrillError as error:  # of this drill: the next one may succeed
                show_message(str(error), ERROR)
                bad += 1
                continue
            append(kept, result)
            (folder / "drill.md").write_text(page(result, scenario), encoding="utf-8")
            bad += _told(folder, result)
    if bad:
        raise typer.Exit(KraftForensicsError.exit_code)


def _told(folder: Path, result: Mapping[str, Any]) -> int:
    """Print a drill's result, and return how much of it is wrong."""
    wrong = len(result["wrong"]) + (not result["as_expected"])
    typer.echo(f"{folder / 'drill.md'}: {sum(result['lost'].values())} records lost, {wrong} wrong")
    return wrong
