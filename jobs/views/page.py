"""Generate docs/views.md from page.md and the SQL files: `python -m jobs.views.page > docs/views.md`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.resources import files

from jobs.views.catalogue import View, views

_MANY = 3  # views with the same column and meaning: it is explained once
_SAME_TIME = " in ms since the Unix epoch"


def document() -> str:
    """The Markdown page: columns of many views, then a section per view with a line per column."""
    head = files(__package__).joinpath("page.md").read_text("utf-8")
    lines = Counter(line for view in views().values() for line in _lines(view).values())
    shared = {line for line, count in lines.items() if count >= _MANY}
    sections = (part for name in sorted(views()) for part in _section(views()[name], shared))
    return head + "".join(line for line in lines if line in shared) + "".join(sections)


def _section(view: View, shared: set[str]) -> Iterator[str]:
    columns = _lines(view)
    yield f"\n## `{view.name}`\n\n{view.comment}.{' ' + view.details if view.details else ''}\n\n"
    yield from (line for line in columns.values() if line not in shared)
    yield f"- As above: {_names(name for name, line in columns.items() if line in shared)}\n"


def _lines(view: View) -> dict[str, str]:
    """The line of each column; a time in ms stands on that of its timestamp."""
    ms = {text.removesuffix(_SAME_TIME): name for name, text in view.columns.items() if text.endswith(_SAME_TIME)}
    named = {name: (name, ms[name]) if name in ms else (name,) for name in view.columns if name not in ms.values()}
    return {name: f"- {_names(names)}: {view.columns[name]}\n" for name, names in named.items()}


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    print(document(), end="")
