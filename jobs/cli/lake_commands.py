"""Commands about a lake as a whole: `status`, `maintain`, `forget`; of custody `verify` and `manifest`."""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from evidence.errors import KraftForensicsError
from jobs.cli.lakes import recorded
from jobs.cli.stage_commands import EXIT_FINDINGS
from jobs.console.log import WARNING, show_message
from jobs.console.options import DEFAULT_LAKE, StatusFormat
from jobs.console.output import Format, print_rows, utc
from jobs.console.progress import progress_steps

if TYPE_CHECKING:
    from jobs.lake.lake import Lake


def status(
    given: list[Path] | None = None,
    runs: int = 0,
    captures: bool = False,
    evidence: bool = False,
    tables: bool = False,
    max_age_ms: int | None = None,
    lake: Any = DEFAULT_LAKE,
    form: StatusFormat = "table",
) -> None:
    """Show what was found in each cluster, the worst first, how old its evidence is, and how its last run ended."""
    from jobs.lake.lake import Lake
    from jobs.queries.status import metrics_of, print_status, status_of

    now_ms = time.time_ns() // 1_000_000
    found = [status_of(Lake(root), now_ms, runs, captures) for root in given or [lake]]
    if form == "json":
        print(json.dumps({"lakes": found}, indent=2))
    elif form == "openmetrics":
        print(metrics_of(found), end="")
    else:
        print_status(found, evidence, tables)
    if max_age_ms is not None and (late := list(_too_old(found, max_age_ms))):
        for line in late:
            show_message(line, WARNING)
        raise typer.Exit(EXIT_FINDINGS)


def _too_old(lakes: list[dict[str, Any]], max_age_ms: int) -> Iterator[str]:
    for lake in lakes:
        if not lake["clusters"]:
            yield f"{lake['lake']}: no captures"
        for cluster in lake["clusters"]:
            place, age_ms = f"{lake['lake']}: cluster {cluster['cluster_id']}", cluster["log_age_ms"]
            if age_ms is None:
                yield f"{place}: no record of the metadata log was captured"
            elif age_ms > max_age_ms:
                yield f"{place}: the newest record of the metadata log is {age_ms / 3_600_000:.1f} h old"


def maintain(given: Any = None, retention_days: int = 7, lake: Any = DEFAULT_LAKE, form: Format = Format.TABLE) -> None:
    """Compact small files and delete those that no commit needs. No row changes (docs/operations.md)."""
    from jobs.custody.maintain import MAINTAINED, maintain
    from jobs.lake.lake import Lake

    files = Lake(given or lake)
    with recorded("maintain", files.root) as record, progress_steps(1) as (describe, _):
        done = maintain(files, retention_days, describe)
        for cluster in files.clusters():
            record.of(cluster)
    changed = [each for each in done if each["before"] != each["after"] or each["deleted"]]
    if changed or form is not Format.TABLE:
        print_rows(MAINTAINED, changed, form)
    compacted = sum(each["before"] - each["after"] for each in done)
    deleted, size = (sum(each[name] for each in done) for name in ("deleted", "deleted_bytes"))
    show_message(f"maintain: {compacted} fewer files in tables, {deleted} files deleted ({size} bytes)")
    if retention_days and compacted:
        show_message(f"files that were replaced stay for readers; maintain deletes them after {retention_days} days")


def forget(
    capture: str | None = None,
    older_ms: int | None = None,
    keeps: bool = False,
    again: list[str] | None = None,
    yes: bool = False,
    cluster: str | None = None,
    lake: Any = DEFAULT_LAKE,
) -> None:
    """Remove what one capture brought, or all old ones, and make again what follows. Without --yes only say it."""
    from jobs.lake.lake import Lake

    if (capture is None) == (older_ms is None):
        raise typer.BadParameter("give the name of a capture, or --older-than")
    if (older_ms is None and keeps) or (older_ms is not None and again):
        raise typer.BadParameter("--keep-findings is for --older-than, --capture for the name of a capture")
    files = Lake(lake)
    if older_ms is not None:
        _forget_old(files, cluster, older_ms, keeps, yes)
    elif capture is not None:
        _forget_one(files, cluster, capture, again or [], yes)


def _forget_old(files: "Lake", wanted: str | None, older_ms: int, keeps: bool, yes: bool) -> None:
    from jobs.custody.forget import keep_findings, remove, retention_of, settle_findings
    from jobs.pipeline import Pipeline

    now_ms = time.time_ns() // 1_000_000
    files.require()
    clusters = [files.one_cluster(wanted)] if wanted else files.clusters()
    found = [retention_of(files, name, now_ms - older_ms) for name in clusters]
    rows = [
        {
            "cluster": each.cluster_id,
            "captures": len(each.captures),
            "rows": sum(each.rows.values()),
            "log from": each.from_offset,
            "log from (UTC)": utc(each.from_ms) or "all is kept",
        }
        for each in found
    ]
    show_message(f"older than {utc(now_ms - older_ms)[:19]} UTC, and removed:")
    print_rows(list(rows[0]), rows, Format.TABLE)
    if not (old := [each for each in found if each.captures]):
        show_message("nothing is old enough")
        return
    kept = "old findings stay in kept_findings" if keeps else "old findings are gone, and their acknowledgements"
    show_message(f"replay, detect, quality and report run again; {kept}")
    if not yes:
        show_message("nothing was changed: add --yes to forget it")
        return
    with recorded("forget", files.root) as record:
        pipeline = Pipeline(files.root, (), record)
        files.create()
        with progress_steps(1) as (describe, _):
            for each in old:
                describe(f"{each.cluster_id}: removing what is old")
                if keeps:
                    keep_findings(files, each.cluster_id, now_ms)
                remove(files, each, pipeline.settings)
        pipeline.remake()
        for each in old:
            count = settle_findings(files, each.cluster_id, keeps)
            show_message(f"{each.cluster_id}: {count} findings are kept without their evidence")
    show_message("forget: done; `kraft-forensics maintain` deletes the old files")


def _forget_one(files: "Lake", cluster: str | None, capture: str, again: list[str], yes: bool) -> None:
    from evidence.capture.remote import location
    from jobs.custody.forget import check_given, cluster_of, findings_of, forget, forget_findings, is_all, plan_of
    from jobs.lake.integrity import digest_of
    from jobs.pipeline import Pipeline

    plan = plan_of(files, cluster_of(files, capture, cluster), capture)
    show_message(f"{capture} (cluster {plan.cluster_id}) brought these rows, which are removed:")
    print_rows(["table", "rows"], [{"table": name, "rows": count} for name, count in plan.rows.items()], Format.TABLE)
    if plan.again:
        show_message(f"also ingested again, from their bytes: {', '.join(plan.again)} (each with --capture PATH)")
    if is_all(files, plan):
        show_message("it is the cluster's only capture: nothing of the cluster stays, not even acknowledgements")
    else:
        show_message("replay, detect, quality and report run again")
    if not yes:
        show_message(f"nothing was changed: add --yes to forget {capture}")
        return
    with recorded("forget", files.root) as record:
        record.ingested(plan.cluster_id, capture, digest_of(files, plan.cluster_id, capture), plan.rows)
        pipeline = Pipeline(files.root, (), record)
        places = check_given(plan, [location(place) for place in again], pipeline.settings)
        before = findings_of(files, plan.cluster_id)
        with progress_steps(1) as (describe, _):
            forget(files, plan, places, pipeline.settings, describe)
        if clusters := files.clusters():
            pipeline.remake()
        if plan.cluster_id in clusters:
            forget_findings(files, plan.cluster_id)
        now = findings_of(files, plan.cluster_id)
    counts = f"{len(before - now)} gone, {len(now - before)} new, {len(before & now)} as before"
    show_message(f"findings, with their verdict and severity: {counts}")
    show_message(f"forget: {capture} is forgotten; `kraft-forensics maintain --retention-days 0` deletes its old files")


def verify(
    given: Any = None,
    lake: Any = DEFAULT_LAKE,
    capture: list[str] | None = None,
    every: bool = False,
    sample: int = 2,
    adopting: bool = False,
    signed: Path | None = None,
    allowed_signers: Path | None = None,
    cluster: str | None = None,
    form: Format = Format.TABLE,
) -> None:
    """Check that nothing but this program changed a lake, and compare it with its captures (docs/reliability.md)."""
    from evidence.capture.remote import location
    from jobs.config.settings import load_settings
    from jobs.custody.derived import check_capture, check_histories, check_sample
    from jobs.custody.maintain import adopt
    from jobs.custody.manifest import check_signature, check_signed, signed_document
    from jobs.custody.tables import Difference, can_be_replayed, check_tables, rewritten
    from jobs.ingest.captures import person
    from jobs.lake.lake import Lake
    from jobs.lake.tables import CLUSTER_ID

    if (signed is None) != (allowed_signers is None):
        raise typer.BadParameter("give --signed and --allowed-signers together")
    document = None
    if signed is not None and allowed_signers is not None:
        signer, document = check_signature(signed, allowed_signers), signed_document(signed)
        show_message(f"{signed}: good signature of {signer}")
    files = Lake(lake if given is None else given)
    files.require()
    settings = load_settings()
    found: list[Difference] = []
    for name in [files.one_cluster(cluster)] if cluster else files.clusters():
        found += (of_tables := list(check_tables(files, name)))
        for table in rewritten(of_tables) if adopting else ():
            adopt(files, table, name, person(settings.custody.ingested_by))
            show_message(f"{name}: {table}: the files of the other program are adopted")
        for source in capture or ():
            found += check_capture(files, name, location(source), settings, None if every else sample)
        if can_be_replayed(of_tables):
            found += check_histories(files, name, settings) if every else check_sample(files, name, settings, sample)
    if document is not None and not any(difference.what == "unreadable" for difference in found):
        found += check_signed(files, document[CLUSTER_ID], document)
    if found or form is not Format.TABLE:
        print_rows(list(Difference.__dataclass_fields__), [asdict(difference) for difference in found], form)
    wrong = sum(not difference.is_note for difference in found)
    differences = f"{wrong} difference{'s' if wrong > 1 else ''}, explained in docs/reliability.md"
    show_message(f"verify: {differences}" if wrong else "verify: every table is as this program left it")
    if wrong:
        raise typer.Exit(KraftForensicsError.exit_code)


def manifest(
    lake: Any = DEFAULT_LAKE,
    capture: str | None = None,
    output: Path | None = None,
    key: Path | None = None,
    cluster: str | None = None,
) -> None:
    """Print every capture in the lake as JSON: files, SHA-256, who ingested it, with which version, when."""
    from jobs.custody.manifest import manifest, sign
    from jobs.lake.lake import Lake
    from jobs.lake.storage import write_whole

    if key is not None and output is None:
        raise typer.BadParameter("--sign needs --output: a file is signed")
    files = Lake(lake)
    text = json.dumps(manifest(files, files.one_cluster(cluster), capture), indent=2)
    if output is None:
        print(text)
        return
    write_whole(output, text + "\n")
    show_message(f"manifest:  {output}")
    if key is not None:
        show_message(f"signature: {sign(output, key)}")
