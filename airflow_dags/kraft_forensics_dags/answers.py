"""What a run says of one cluster, for XCom, Airflow's pages and the hook. The command line gives the words."""

from __future__ import annotations

import json
import textwrap
from typing import Any

from kraft_forensics_dags.command import CommandError, printable, run_command
from kraft_forensics_dags.settings import setting

MOST_CHARACTERS = 120  # of a note: it is shown in a narrow column
LINKS = {"report": "report.html", "verdict": "verdict.json"}


def link(lake: str, name: str, file: str) -> str:
    """Where a file of a cluster's lake is; with KRAFT_FORENSICS_DAG_LINKS the URL of a web server that shows it."""
    shown = setting("LINKS", "")
    return f"{shown.rstrip('/')}/{name}/{file}" if shown else f"{lake.rstrip('/')}/{file}"


def answer_of(name: str, lake: str, findings: bool) -> dict[str, Any]:
    """{cluster, valid, text, loss, status, findings, report, verdict, note}: docs/verdict.md has the first ones.
    Errors: as `run_command`; CommandError if the command prints something else."""
    document = run_command("verdict", "--lake", lake, "--format", "json", quiet=True)[1]
    try:
        found = json.loads(document)
        text = [printable(line) for line in found["answer"]["text"]]
        loss = {key: found["loss"][key] for key in ("acks_all_min", "acks_all_max")}
        known = {key: found["status"][key] for key in ("new", "known", "acknowledged")}
        answer = {"cluster": name, "valid": found["valid"], "text": text, "loss": loss, "status": known}
        note = textwrap.shorten(f"{name}: {text[0]}", MOST_CHARACTERS, placeholder=" ...")
    except (ValueError, TypeError, LookupError) as error:
        raise CommandError(f"kraft-forensics verdict: not the document of docs/verdict.md: {error!r}") from error
    links = {key: link(lake, name, file) for key, file in LINKS.items()}
    return answer | links | {"findings": findings, "lake": lake, "note": note}
