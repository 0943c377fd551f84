"""Generate docs/views.md from page.md and the SQL files: `python -m jobs.views.page > docs/views.md`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

from jobs.views.catalogue import View, views


def document() -> str:
    """The Markdown page: a section per view, a row per column."""
    head = files(__package__).joinpath("page.md").read_text("utf-8")
    return head + "".join(part for name in sorted(views()) for part in _section(views()[name]))


def _section(view: View) -> Iterator[str]:
    yield f"\n## `{view.name}`\n\n{view.comment}.{' ' + view.details if view.details else ''}\n"
    yield "\n| column | meaning |\n|---|---|\n"
    yield from (f"| `{name}` | {text.replace('|', chr(92) + '|')} |\n" for name, text in view.columns.items())


if __name__ == "__main__":
    print(document(), end="")
