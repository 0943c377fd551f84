"""Commands for custody: `verify`, `manifest`. No JVM starts for small lakes."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from evidence.errors import KraftForensicsError
from jobs.console.options import DEFAULT_LAKE, ClusterOption, FormatOption, LakeArgument, LakeOption
from jobs.console.output import Format, print_rows, show_message


def verify(
    given: LakeArgument = None,
    lake: LakeOption = DEFAULT_LAKE,
    capture: Annotated[
        list[str] | None, typer.Option("--capture", help="Path or URL of an ingested capture to compare; repeatable.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Derive every row again: decode all files, replay and judge the evidence.")
    ] = False,
    sample: Annotated[
        int,
        typer.Option(
            "--sample",
            min=0,
            help="Buckets of topics to replay, and files of a capture's log to decode, at random.",
        ),
    ] = 2,
    adopting: Annotated[
        bool, typer.Option("--adopt", help="Accept files that another program rewrote with the same rows (OPTIMIZE).")
    ] = False,
    signed: Annotated[
        Path | None,
        typer.Option("--signed", help="A signed file (manifest, verdict.json): check its signature, compare the lake."),
    ] = None,
    allowed_signers: Annotated[
        Path | None,
        typer.Option("--allowed-signers", help="Who may sign: ssh's allowed_signers file, or minisign's public key."),
    ] = None,
    cluster: ClusterOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Check that nothing but this program changed a lake, and compare it with its captures (docs/reliability.md)."""
    from evidence.capture.remote import location
    from jobs.config.settings import load_settings
    from jobs.custody.captures import check_capture
    from jobs.custody.histories import check_histories, check_sample
    from jobs.custody.maintain import adopt
    from jobs.custody.manifest import check_signed, signed_document
    from jobs.custody.signatures import check_signature
    from jobs.custody.tables import Difference, can_be_replayed, check_tables, rewritten
    from jobs.ingest.receipt import person
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
            replayed = check_histories(files, name, settings) if every else check_sample(files, name, settings, sample)
            found += replayed
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
    lake: LakeOption = DEFAULT_LAKE,
    capture: Annotated[str | None, typer.Option("--capture", help="Name of one ingested capture.")] = None,
    output: Annotated[Path | None, typer.Option("--output", help="File to write (default: stdout).")] = None,
    key: Annotated[Path | None, typer.Option("--sign", help="ssh or minisign key to sign the file with.")] = None,
    cluster: ClusterOption = None,
) -> None:
    """Print every capture in the lake as JSON: files, SHA-256, who ingested it, with which version, when."""
    from jobs.custody.manifest import manifest
    from jobs.custody.signatures import sign
    from jobs.lake.files import write_whole
    from jobs.lake.lake import Lake

    if key is not None and output is None:
        raise typer.BadParameter("--sign needs --output: a file is signed")
    files = Lake(lake)
    text = json.dumps(manifest(files, files.one_cluster(cluster), capture), indent=2)
    if output is None:
        print(text)
        return
    try:
        write_whole(output, text + "\n")
    except OSError as error:
        raise KraftForensicsError(f"{output}: cannot be written: {error.strerror or error}") from error
    show_message(f"manifest:  {output}")
    if key is not None:
        show_message(f"signature: {sign(output, key)}")
