"""Generate docs/views.md from page.md and the SQL files: `python -m jobs.views.page > docs/views.md`."""

from __future__ import annotations

from importlib.resources import files

from jobs.lake.columns_page import names, sections
from jobs.views.catalogue import View, views

_CLUSTER = "cluster_id"  # every view has it
_SAME_TIME = " in ms since the Unix epoch"


def document() -> str:
    """The Markdown page: columns of several views, then a section per view with a line per column."""
    head = files(__package__).joinpath("page.md").read_text("utf-8")
    heads = {name: f"{view.comment}.{' ' + view.details if view.details else ''}" for name, view in views().items()}
    return head + sections(
        dict(sorted(heads.items())), {name: _lines(view) for name, view in views().items()}, [_CLUSTER]
    )


def _lines(view: View) -> dict[str, str]:
    """The line of each column; a time in ms stands on that of its timestamp."""
    ms = {text.removesuffix(_SAME_TIME): name for name, text in view.columns.items() if text.endswith(_SAME_TIME)}
    times = {name: (name, ms[name]) if name in ms else (name,) for name in view.columns if name not in ms.values()}
    return {name: f"- {names(listed)}: {view.columns[name]}\n" for name, listed in times.items()}


if __name__ == "__main__":
    print(document(), end="")
