"""Check that no page of the site loads anything from another host: `python -m docs_site.offline .site/html`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

# Scripts, style sheets, pictures and frames; a link to follow (<a href>) loads nothing.
LOADS = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?https?:[^>]*>|<link\b[^>]*\bhref=\"?https?:[^>]*>")
HARMLESS = re.compile(r"rel=\"?canonical")


def loads(html: str) -> list[str]:
    """The elements of a page that load something from another host."""
    return [found[0] for found in LOADS.finditer(html) if not HARMLESS.search(found[0])]


if __name__ == "__main__":
    pages = sorted(Path(sys.argv[1]).rglob("*.html"))
    found = [f"{page}: {each}" for page in pages for each in loads(page.read_text(encoding="utf-8"))]
    if found:
        raise SystemExit("\n".join(found))
