"""What the pages of tables and of views share: the columns of many are explained once, at the head."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

_MANY = 2  # tables or views with the same column and meaning: it is explained once


def sections(
    heads: Mapping[str, str],
    columns: Mapping[str, Mapping[str, str]],
    left_out: Iterable[str] = (),
    place: Sequence[str] = (),
) -> str:
    """The Markdown of columns of several tables or views, then a section for each.

    heads: by name what stands below the heading. columns: by name, then by column, the line that explains it.
    left_out: columns that no section names, since the page's head does. place: columns that the head calls a row's
    place, for short. Of a column's lines only the most frequent one is at the head, so a section never means another
    one of that name.
    """
    counts = Counter((name, line) for lines in columns.values() for name, line in lines.items() if name not in left_out)
    shared = {name: line for (name, line), count in reversed(counts.most_common()) if count >= _MANY}
    listed = dict.fromkeys((name, line) for lines in columns.values() for name, line in lines.items())
    parts = [line for name, line in listed if shared.get(name) == line]
    for title, head in heads.items():
        own = {name: line for name, line in columns[title].items() if name not in left_out}
        above = [name for name, line in own.items() if shared.get(name) == line]
        parts.append(f"\n## `{title}`\n\n{head}\n\n")
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
