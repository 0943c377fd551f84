"""The capture manifest: what the person who captured knows and the files cannot tell. `capture.toml` or `capture.json`
in the capture's top folder; docs/evidence.md has an example.
"""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from evidence.errors import CaptureError
from evidence.limits import MAX_DURATION_MS, MAX_TIME_MS

NAMES = ("capture.toml", "capture.json")


def _milliseconds(value: Any) -> Any:
    """A time as milliseconds since the Unix epoch: a number, or a date with a zone."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("a time needs its zone, e.g. 2026-11-20T10:00:00Z")
        return round((value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
    return value


def _text(value: Any) -> Any:
    """A config value as Kafka's properties files have it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Time = Annotated[int, BeforeValidator(_milliseconds), Field(ge=0, le=MAX_TIME_MS)]
Duration = Annotated[int, Field(ge=0, le=MAX_DURATION_MS)]
Configs = dict[str, Annotated[str, BeforeValidator(_text)]]


class _Facts(BaseModel):
    """What may be said of the whole capture or of one node.

    captured_at: when copying began (ms since the Unix epoch, or a date with a zone); a number of milliseconds in a
    file's path is closer and wins. snapshot_duration_ms: how long one round of copying took. clock_error_ms: how far
    the clock may have been from the controllers' clocks. Both are at most 365 days, and no time is after the year 9999.
    configs: static configs; a captured server.properties wins.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    captured_at: Time | None = None
    snapshot_duration_ms: Duration | None = None
    clock_error_ms: Duration | None = None
    kafka_release: str | None = None
    configs: Configs = {}


class Node(_Facts):
    """[[nodes]]: a node's folder inside the capture, and what holds for it."""

    id: Annotated[int, Field(ge=0, lt=1 << 31)]
    path: str | None = None

    def holds(self, path: PurePosixPath) -> bool:
        """Whether a file lies in this node's folder."""
        return self.path is not None and path.is_relative_to(PurePosixPath(self.path))


class Manifest(_Facts):
    """The whole file."""

    cluster_id: str | None = None
    nodes: tuple[Node, ...] = ()

    def node_of(self, path: PurePosixPath) -> Node | None:
        """The node whose folder a file lies in; of nested folders the innermost."""
        found = [n for n in self.nodes if n.holds(path)]
        return max(found, key=lambda n: len(PurePosixPath(n.path or "").parts), default=None)

    def facts_of(self, path: PurePosixPath, node_id: int | None) -> tuple[_Facts, ...]:
        """What holds for a file, the closest first."""
        node = self.node_of(path) or next((n for n in self.nodes if n.id == node_id), None)
        return (self,) if node is None else (node, self)

    def static_configs(self, nodes: set[int]) -> dict[int, dict[str, str]]:
        """Static configs by node, for `nodes` and those that the manifest names itself."""
        own = {n.id: n.configs for n in self.nodes}
        return {node: {**self.configs, **own.get(node, {})} for node in sorted(nodes | set(own))}


def read_manifest(data: bytes, path: str) -> Manifest:
    """Errors: CaptureError naming the file and the entry that is wrong: a manifest is written by hand."""
    try:
        text = data.decode("utf-8")
        values = json.loads(text) if path.endswith(".json") else tomllib.loads(text)
        # Strict, but as JSON: lists for tuples are fine, "3" for 3 is not.
        return Manifest.model_validate_json(json.dumps(values, default=str))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise CaptureError(
            f"{path}: {place}: {first['msg']} (docs/evidence.md says what a manifest may hold)"
        ) from error
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"{path}: not a manifest that can be read: {error}") from error
