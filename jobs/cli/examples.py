"""Examples of every command, for its --help: the lines of examples.txt. A test parses each of them."""

from __future__ import annotations

import re
from collections import defaultdict
from importlib.resources import files

EXAMPLES: dict[str, list[str]] = defaultdict(list)
for _line in files(__package__).joinpath("examples.txt").read_text("utf-8").splitlines():
    for _name in re.findall(r"kraft-forensics (config show|\w+)", _line):
        EXAMPLES[_name].append(_line)


def epilog(name: str) -> str:
    """The examples of a command as the last paragraphs of its --help."""
    return "\n\n".join(["Examples:", *EXAMPLES[name]])
