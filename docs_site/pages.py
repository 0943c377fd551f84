"""Gather the pages of the site: those of docs/ and of the repository's root, and those made from code.

`python -m docs_site.pages .site` writes .site/pages and .site/mkdocs.yml. A link to a file of the repository that is no
page becomes plain text. The notebook's page is made by docs_site/notebook.py.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import sys
from pathlib import Path

from docs_site.cli_page import cli_page

ROOT = Path(__file__).parents[1]
# Pages outside docs/, by their name in the site.
OUTSIDE = {
    "README.md": "overview.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "airflow_dags/README.md": "airflow.md",
    "conf/defaults.toml": "settings.md",
    "examples/incident.ipynb": "incident.md",
}
MADE = {"conf/defaults.toml", "examples/incident.ipynb"}
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r"(^ *```.*?^ *```)", re.MULTILINE | re.DOTALL)
MERMAID = re.compile(r"^```mermaid\n.*?^```", re.MULTILINE | re.DOTALL)
SETTINGS = """# Settings

The file `conf/defaults.toml` has all settings with their defaults. `kraft-forensics config show` prints the ones in
force and where each comes from.

```toml
{text}```
"""


def place_of(path: str) -> str | None:
    """Where a file of the repository is in the site; None if it is not there."""
    if path in OUTSIDE:
        return OUTSIDE[path]
    return path.removeprefix("docs/") if path.startswith("docs/") and (ROOT / path).is_file() else None


def with_links(text: str, path: str) -> str:
    """A page of the repository with its links as they are in the site."""
    here = posixpath.dirname(place_of(path) or "")

    def link(found: re.Match[str]) -> str:
        target, hash_, anchor = found["target"].partition("#")
        if ":" in target or not target:
            return found[0]
        place = place_of(posixpath.normpath(posixpath.join(posixpath.dirname(path), target)))
        if place is None:
            return found["text"]
        return f"{found['image']}[{found['text']}]({posixpath.relpath(place, here or '.')}{hash_}{anchor})"

    parts = FENCE.split(text)
    return "".join(part if number % 2 else LINK.sub(link, part) for number, part in enumerate(parts))


def page(path: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8")
    # The drawing of Mermaid needs a script from another host.
    text = MERMAID.sub("![How data moves through the program](images/data_flow.svg)", text)
    return with_links(text, path)


def nav(config: str, pages: set[str]) -> str:
    """mkdocs.yml with the nav of these pages: with a line for each page that adr/*.md names. Errors: ValueError for a
    page that the nav lacks, or an entry without a page."""
    decisions = "".join(f"\n          - {each}" for each in sorted(pages) if each.startswith("adr/"))
    filled = config.replace(" adr/*.md", decisions)
    named = set(re.findall(r"^ *- (?:.*: )?(\S+\.md)$", filled, re.MULTILINE))
    if named != pages:
        raise ValueError(f"docs_site/mkdocs.yml: nav and pages differ: {sorted(named ^ pages)}")
    return filled


def gather(site: Path) -> None:
    """Write all pages but the notebook's, and mkdocs.yml. What was there before is removed."""
    folder = site / "pages"
    shutil.rmtree(folder, ignore_errors=True)
    sources = [p.relative_to(ROOT).as_posix() for p in sorted((ROOT / "docs").rglob("*.*"))]
    for path in [*sources, *(OUTSIDE.keys() - MADE)]:
        target = folder / str(place_of(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".md"):
            target.write_text(page(path), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / path, target)
    defaults = (ROOT / "conf" / "defaults.toml").read_text(encoding="utf-8")
    (folder / "settings.md").write_text(SETTINGS.format(text=defaults), encoding="utf-8")
    (folder / "cli.md").write_text(cli_page(), encoding="utf-8")
    shutil.copyfile(ROOT / "docs_site" / "site.css", folder / "site.css")
    pages = {p.relative_to(folder).as_posix() for p in folder.rglob("*.md")} | {OUTSIDE["examples/incident.ipynb"]}
    config = (ROOT / "docs_site" / "mkdocs.yml").read_text(encoding="utf-8")
    (site / "mkdocs.yml").write_text(nav(config, pages), encoding="utf-8")


if __name__ == "__main__":
    gather(Path(sys.argv[1]))
