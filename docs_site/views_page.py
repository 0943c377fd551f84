"""Write the columns of views into docs/views.md, from the SQL files: `python -m docs_site.views_page`. What is above
`_BEGIN` in the page is written by hand. The columns of many views, or tables, are explained once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from jobs.views.catalogue import View, views

_MANY = 2  # tables or views with the same column and meaning: it is explained once


def sections(
    heads: Mapping[str, str],
    columns: Mapping[str, Mapping[str, str]],
    left_out: Iterable[str] = (),
    place: Sequence[str] = (),
    alike: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The Markdown of columns of several tables or views, then a section for each.

    heads: by name what stands below the heading. columns: by name, then by column, the line that explains it.
    left_out: columns that no section names, since the page's head does. place: columns that the head calls a row's
    place, for short. alike: by name another one that has all its columns but those that its section then lists. Of a
    column's lines only the most frequent one is at the head, so a section never means another
    one of that name.
    """
    every = [(title, name, line) for title, lines in columns.items() for name, line in lines.items()]
    counts = Counter((name, line) for title, name, line in every if name not in left_out and title not in alike)
    shared = {name: line for (name, line), count in reversed(counts.most_common()) if count >= _MANY}
    listed = dict.fromkeys((name, line) for _, name, line in every)
    parts = [line for name, line in listed if shared.get(name) == line]
    for title, head in heads.items():
        own = {name: line for name, line in columns[title].items() if name not in left_out}
        above = [name for name, line in own.items() if shared.get(name) == line]
        parts.append(f"\n## `{title}`\n\n{head}\n\n")
        if title in alike:
            parts += [line for name, line in own.items() if columns[alike[title]].get(name) != line]
            parts.append(f"- All columns of `{alike[title]}`\n")
            continue
        parts += [line for name, line in own.items() if name not in above]
        if place and set(place) <= set(above):
            above = [name for name in above if name not in place]
            parts.append(f"- As above: {', '.join([*(f'`{name}`' for name in above), 'place'])}\n")
        elif above:
            parts.append(f"- As above: {names(above)}\n")
    return "".join(parts)


def names(listed: Iterable[str]) -> str:
    """Names as code, joined by commas."""
    return ", ".join(f"`{name}`" for name in listed)


_PAGE = Path(__file__).parents[1] / "docs" / "views.md"
_BEGIN = "## Columns of several views\n\n"
_CLUSTER = "cluster_id"  # every view has it
_SAME_TIME = " in ms since the Unix epoch"


def document() -> str:
    """The Markdown page: its head, columns of several views, then a section per view with a line per column."""
    head, begin, _ = _PAGE.read_text("utf-8").partition(_BEGIN)
    heads = {name: f"{view.comment}.{' ' + view.details if view.details else ''}" for name, view in views().items()}
    return (
        head
        + begin
        + sections(dict(sorted(heads.items())), {name: _lines(view) for name, view in views().items()}, [_CLUSTER])
    )


def _lines(view: View) -> dict[str, str]:
    """The line of each column; a time in ms stands on that of its timestamp."""
    ms = {text.removesuffix(_SAME_TIME): name for name, text in view.columns.items() if text.endswith(_SAME_TIME)}
    times = {name: (name, ms[name]) if name in ms else (name,) for name in view.columns if name not in ms.values()}
    return {name: f"- {names(listed)}: {view.columns[name]}\n" for name, listed in times.items()}


if __name__ == "__main__":
    _PAGE.write_text(document(), "utf-8")
