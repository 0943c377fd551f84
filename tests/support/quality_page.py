"""docs/quality-checks.md, made of the heads of the checks.

`python -m tests.support.quality_page > docs/quality-checks.md`
"""

from __future__ import annotations

from collections import defaultdict

from quality.check import Check, checks

HEAD = """# The checks of every table

Generated from the files of `quality/checks/` by `python -m tests.support.quality_page`. [quality.md](quality.md) says
how to run them, and what to do when one fails. Unless it says `warn`, the severity is error.

## Checks of several tables
"""
COLUMNS = "| check | about | must hold | otherwise |\n|---|---|---|---|\n"


def page() -> str:
    several: dict[str, list[Check]] = defaultdict(list)
    for check in checks():
        if check.shared:
            several[check.name].append(check)
    parts = [HEAD, "\n", COLUMNS]
    for name, own in sorted(several.items()):
        parts.append(_line(own[0], _MEANINGS.get(name, own[0].meaning)))
    parts.append("\n")
    for name, own in sorted(several.items()):
        if name not in _MEANINGS:
            parts.append(f"- `{name}`: {', '.join(f'`{check.table}`' for check in own)}\n")
    for table in dict.fromkeys(check.table for check in checks()):
        parts.append(f"\n## `{table}`\n\n")
        key, valid = (
            {c.name: c for c in checks() if c.table == table}[name] for name in ("key_unique", "values_valid")
        )
        parts.append(f"Key: {', '.join(f'`{name}`' for name in key.key)}. Values: {valid.meaning}\n")
        own = [check for check in checks() if check.table == table and not check.shared]
        if own:
            parts += ["\n", COLUMNS, *(_line(check, check.meaning) for check in own)]
    return "".join(parts)


_MEANINGS = {
    "key_unique": "No two rows have the same key.",
    "values_valid": "The values are those that the table's section names.",
}


def _line(check: Check, meaning: str) -> str:
    severity = " (warn)" if check.warns else ""
    return f"| `{check.name}` | {check.kind}{severity} | {meaning} | {check.action} |\n"


if __name__ == "__main__":
    print(page(), end="")
