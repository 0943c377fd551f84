"""A static HTML page with the trend of quality: the newest runs, and how often each expectation was broken in them."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment

MAX_RUNS = 30


def page(cluster: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The page. rows: of newest_runs.sql, of at most MAX_RUNS runs."""
    template = (files("quality") / "trend.html.j2").read_text("utf-8")
    made = Environment(autoescape=True, trim_blocks=True, keep_trailing_newline=True).from_string(template)
    return made.render(cluster=cluster, rows=rows, most=MAX_RUNS)
