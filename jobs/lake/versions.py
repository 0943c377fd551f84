"""Refuse a lake that a newer release of this program wrote. Every commit's mark names the layout of the tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jobs.lake.chain import metadata_of
from jobs.lake.storage import LakeError
from jobs.lake.tables import SCHEMA_VERSION

Row = dict[str, Any]


class NewerLakeError(LakeError):
    """A newer release of this program wrote the lake."""

    exit_code = 5


def layout_of(made: Row) -> int:
    """The layout that a commit's metadata names; 0 for an earlier release."""
    return int(made.get("mark", {}).get("schema", 0))


def refuse_newer(root: object, commits: Iterable[Row]) -> None:
    """Check the newest commit with a mark. commits: of a table, newest first. Errors: NewerLakeError."""
    made = next((found for commit in commits if "mark" in (found := metadata_of(commit))), {})
    if layout_of(made) > SCHEMA_VERSION:
        raise newer(root, made["mark"]["writer"], f"layout {layout_of(made)}", f"{SCHEMA_VERSION}")


def newer(root: object, writer: str, found: str, known: str) -> NewerLakeError:
    """The error for a lake that this program does not know. found: its version; known: the newest that is known."""
    return NewerLakeError(
        f"{root}: this lake is of a newer release ({writer}, {found}; this program knows {known}). Use that release."
    )
