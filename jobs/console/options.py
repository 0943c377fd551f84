"""Options that commands share, and what their values mean."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from jobs.console.output import Format
from replay.loss.verdict import POSSIBLE, PROVEN, SEVERITIES

DEFAULT_LAKE = Path("lake")


class FailOn(StrEnum):
    """--fail-on: from which verdict, or from which severity on, findings give exit code 3."""

    NONE = "none"
    POSSIBLE = "possible"
    PROVEN = "proven"
    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    INFO = "info"

    def levels(self) -> set[str]:
        """It, and what is worse on its scale; nothing for NONE."""
        scale = next((s for s in _SCALES if self in s), ())
        return {level for level in scale if scale.index(level) <= scale.index(self)}


# Worst first.
_SCALES = ((PROVEN, POSSIBLE), SEVERITIES)


class Start(StrEnum):
    """--start: where the replay begins (jobs/replay/cluster_state.py)."""

    EARLIEST = "earliest"
    NEWEST_CHECKPOINT = "newest-checkpoint"


class DocumentFormat(StrEnum):
    """--format of what is no table of rows."""

    TABLE = "table"
    JSON = "json"


Captures = Annotated[
    list[str],
    typer.Argument(
        help="Capture: a folder, an archive (.tar, .tar.gz, .tar.xz, .zip) or a segment; a path, or a URL such as "
        "s3://bucket/incident.tar.xz (docs/cluster.md)."
    ),
]
LakeOption = Annotated[Path, typer.Option("--lake", help="Folder of the Delta tables.")]
ClusterOption = Annotated[str | None, typer.Option("--cluster", help="Cluster id; needed when the lake holds several.")]
CaptureOption = Annotated[
    str | None, typer.Option("--capture", help="The capture that was ingested, a path or URL: show its very bytes.")
]
StartOption = Annotated[
    Start, typer.Option("--start", help="Replay all that was captured, or only from the newest usable snapshot on.")
]
FormatOption = Annotated[Format, typer.Option("--format", help="How results are printed.")]
DocumentFormatOption = Annotated[DocumentFormat, typer.Option("--format", help="How the result is printed.")]
FailOnOption = Annotated[
    FailOn,
    typer.Option("--fail-on", help="Exit with 3 when there are findings of this verdict, or this severity, or worse."),
]
VerdictOption = Annotated[
    Path | None, typer.Option("--verdict", help="JSON document to write (default: <lake>/verdict.json).")
]
