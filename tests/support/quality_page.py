"""docs/quality-checks.md, made of the heads of the checks.

`python -m tests.support.quality_page > docs/quality-checks.md`
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from quality.check import Check, checks

HEAD = """# The checks of every table

Generated from the files of `quality/checks/` by `python -m tests.support.quality_page`. [quality.md](quality.md) says
how to run them, and what to do when one fails. Each line has a check's name, what it is about, what must hold, and in
italics or bold what to do where it does not. Unless it says `warn`, the severity is error. Frequent answers:

{answers}
## Checks of several tables

"""
# Short for the actions of many checks, as the page's head has them in full.
_ANSWERS = {
    "**Replay again.**": "Run replay and detect again on a lake of this release; if it is still broken, report it with "
    "the capture.",
    "**Detect again.**": "Run detect again on a lake of this release; if it is still broken, report it with the "
    "capture.",
    "**See the invariant.**": "Detect has not seen this state: run detect again. See docs/invariants.md for what a "
    "violation means.",
    "**Ingest again.**": "Ingest the capture into a new lake. If it happens again, report it with the capture.",
}
_SHORT = {action: answer for answer, action in _ANSWERS.items()}


def page() -> str:
    several: dict[str, list[Check]] = defaultdict(list)
    for check in checks():
        if check.shared:
            several[check.name].append(check)
    parts = [HEAD.format(answers="".join(f"- {answer} {action}\n" for answer, action in _ANSWERS.items()))]
    for name, own in sorted(several.items()):
        tables = "" if name in _MEANINGS else f" Of {', '.join(f'`{check.table}`' for check in own)}."
        parts.append(_line([name], own[0], _MEANINGS.get(name, own[0].meaning), tables))
    for table in dict.fromkeys(check.table for check in checks() if not check.shared):
        own = [check for check in checks() if check.table == table and not check.shared]
        parts += [f"\n## `{table}`\n\n", *_lines(own)]
    return "".join(parts).replace("docs/invariants.md", "[invariants.md](invariants.md)")


_MEANINGS = {
    "file_known": "The file that a row names is in evidence_files. All other tables with a `path`.",
    "key_unique": "No two rows have the same key ([tables.md](tables.md)). All tables.",
    "values_valid": "The values are those that [tables.toml](../quality/checks/tables.toml) allows: columns without "
    "nulls, the values and the least value of a column, and which column is not above which. All tables.",
}


def _lines(own: Iterable[Check]) -> Iterable[str]:
    """A line of each check; of those that differ in their names alone one line."""
    alike: dict[tuple[str, str], list[Check]] = defaultdict(list)
    for check in own:
        alike[check.meaning.replace(f" {check.name} ", " of that name "), check.action].append(check)
    for (meaning, _), found in alike.items():
        yield _line([check.name for check in found], found[0], meaning if len(found) > 1 else found[0].meaning)


def _line(names: Iterable[str], check: Check, meaning: str, tables: str = "") -> str:
    listed = ", ".join(f"`{name}`" for name in names)
    severity = ", warn" if check.warns else ""
    return f"- {listed} ({check.kind}{severity}): {meaning} {_SHORT.get(check.action, f'*{check.action}*')}{tables}\n"


if __name__ == "__main__":
    print(page(), end="")
