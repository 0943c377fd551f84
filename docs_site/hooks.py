"""Hooks of MkDocs: the nav's entries that depend on which pages there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# Pages that a release may lack.
OPTIONAL = {"api.md", "cookbook.md", "operations.md", "views.md"}


def on_config(config: Any) -> Any:
    """Leave out optional pages that are missing, and list the decisions by number."""
    pages = Path(config["docs_dir"])
    config["nav"] = _filled(config["nav"], pages)
    return config


def _filled(entries: list[dict[str, Any]], pages: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for entry in entries:
        ((title, target),) = entry.items()
        if title == "Decisions":
            found.append({title: sorted(p.relative_to(pages).as_posix() for p in pages.glob("adr/*.md"))})
        elif isinstance(target, list):
            found.append({title: _filled(target, pages)})
        elif target not in OPTIONAL or (pages / target).exists():
            found.append(entry)
    return found
