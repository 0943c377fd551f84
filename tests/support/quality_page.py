"""docs/quality-checks.md, made of the heads of the checks.

`python -m tests.support.quality_page > docs/quality-checks.md`
"""

from collections import defaultdict
from collections.abc import Iterable

from quality.check import Check, checks

HEAD = """# The checks of every table

Generated from the files of `quality/checks/` by `python -m tests.support.quality_page`. [quality.md](quality.md) says
how to run them, and what to do when one fails. Each line has a check's name, what it is about, and what must hold. What
to do where it does not is in the message, in the column `action` of `quality_results`, and at the head of the check's
file. Unless it says `warn`, the severity is error.

## Checks of several tables

"""


def page() -> str:
    several: dict[str, list[Check]] = defaultdict(list)
    for check in checks():
        if check.shared:
            several[check.name].append(check)
    parts = [HEAD]
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
    "intervals_join": "A state ends where the next one of the same subject begins, at the same time; only before a "
    "snapshot that follows a hole in the log it ends earlier. All `..._history` and `cluster_metrics`.",
    "record_exists": "The record at a state's offset is in metadata_records, and no later epoch replaced it. All "
    "`..._history` and `cluster_metrics`.",
    "values_valid": "The values are those that [tables.toml](../quality/checks/tables.toml) allows: columns without "
    "nulls, the values and the least value of a column, and which column is not above which. All tables.",
}


def _lines(own: Iterable[Check]) -> Iterable[str]:
    """A line of each check; of those that differ in their names alone one line."""
    alike: dict[str, list[Check]] = defaultdict(list)
    for check in own:
        alike[check.meaning.replace(f" {check.name} ", " of that name ")].append(check)
    for meaning, found in alike.items():
        yield _line([check.name for check in found], found[0], meaning if len(found) > 1 else found[0].meaning)


def _line(names: Iterable[str], check: Check, meaning: str, tables: str = "") -> str:
    listed = ", ".join(f"`{name}`" for name in names)
    severity = ", warn" if check.warns else ""
    return f"- {listed} ({check.kind}{severity}): {meaning}{tables}\n"


if __name__ == "__main__":
    print(page(), end="")
