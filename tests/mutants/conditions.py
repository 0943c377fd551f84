"""The conditions of the rules, each with the change of the sources that leaves it out."""

import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT

LISTED = Path(__file__).with_name("conditions.toml")
# What the changes are made to.
CHANGED = ("evidence", "replay", "jobs")


@dataclass(frozen=True, slots=True)
class Condition:
    """rule: its number in docs/findings.md. file: from the repository's root; old: what stands in it exactly once; new:
    the same without the condition."""

    rule: str
    text: str
    file: str
    old: str
    new: str

    def left_out_of(self, source: str) -> str:
        """The source without the condition. ValueError: it does not stand there exactly once."""
        if source.count(self.old) != 1:
            raise ValueError(f"{self.rule}, {self.text}: stands {source.count(self.old)} times in {self.file}")
        return source.replace(self.old, self.new)


def conditions() -> list[Condition]:
    return [Condition(**row) for row in tomllib.loads(LISTED.read_text(encoding="utf-8"))["condition"]]


def without(condition: Condition | None, folder: Path) -> None:
    """Make the folder a copy of the repository without the condition (None: with all): links, but for the sources that
    change."""
    for path in ROOT.iterdir():
        if path.name in CHANGED:
            shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (folder / path.name).symlink_to(path)
    if condition is not None:
        file = folder / condition.file
        file.write_text(condition.left_out_of(file.read_text(encoding="utf-8")), encoding="utf-8")
