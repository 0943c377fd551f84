"""Examples of a page for people: commands, and fenced blocks of a `pycon` session, run as doctests."""

import doctest
import re
from typing import Any

from tests.support.paths import ROOT

_COMMAND = re.compile(r"```console\n\$ kraft-forensics (.*)\n((?:.*\n)*?)```")
_BLOCK = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(page: str) -> list[str]:
    """The blocks of a page, in order."""
    return _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def commands(page: str) -> list[tuple[str, str]]:
    """The commands of a page, without the program's name, and what it shows that they print."""
    return _COMMAND.findall((ROOT / page).read_text(encoding="utf-8"))


def failures(blocks: list[str], names: dict[str, Any]) -> str:
    """What doctest reports of the blocks, which run one after the other; empty if all results are as written."""
    report: list[str] = []
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), names, "page", None, 0)
    doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    return "".join(report)
