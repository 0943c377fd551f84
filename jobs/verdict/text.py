"""The first words about a lake, as `run`, `detect` and `windows` print them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from jobs.console.output import printable
from jobs.console.text import wrapped
from jobs.incident.document import load_answer
from jobs.lake.lake import Lake

Row = dict[str, Any]

NO_ANSWERS: Mapping[str, Row] = {}


def print_answers(lake: Lake, answers: Mapping[str, Row] = NO_ANSWERS) -> None:
    """Print the answer of each cluster to stdout. answers: those that are known."""
    clusters = lake.clusters()
    for cluster in clusters:
        head = [] if len(clusters) == 1 else [f"Cluster {printable(cluster)}"]
        answer = answers[cluster] if cluster in answers else load_answer(lake, cluster)
        lines = [*head, *(line for text in answer["text"] for line in wrapped(printable(text))), ""]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
