"""The names of metrics that conf/defaults.toml gives."""

import tomllib
from dataclasses import replace
from typing import Any

from evidence.offsets.jmx_exporter import MetricNames
from tests.support.paths import ROOT

NAMES = MetricNames(**tomllib.loads((ROOT / "conf" / "defaults.toml").read_text("utf-8"))["metrics"])


def named(log_end_offset: tuple[str, ...], log_start_offset: tuple[str, ...], **more: Any) -> MetricNames:
    """A site's own names, and the usual ones of the rest."""
    return replace(NAMES, log_end_offset=log_end_offset, log_start_offset=log_start_offset, **more)
