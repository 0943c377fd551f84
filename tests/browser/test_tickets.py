"""What a person reads first of each real capture: the ticket, as golden files.

To update them, run `python -m tests.browser.test_tickets` and read the diff.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from jobs.lake.lake import Lake
from jobs.pipeline import Pipeline
from jobs.report.load import load_report
from jobs.report.texts import as_ticket, document_of
from tests.browser.conftest import CAPTURES
from tests.support.paths import ROOT

GOLDEN = Path(__file__).parent / "golden"
NAMES = [Path(capture).name.removesuffix(".tar.xz") for capture in CAPTURES]


def ticket(folder: Path) -> str:
    lake = Lake(folder)
    return "\n".join(as_ticket(document_of(load_report(lake, cluster))) for cluster in lake.clusters())


@pytest.mark.parametrize("name", NAMES)
def test_the_ticket_is_the_golden_one(pages: dict[str, Path], name: str) -> None:
    text = ticket(pages[name].with_suffix(""))
    assert text == (GOLDEN / f"{name}.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 40


if __name__ == "__main__":
    for capture, name in zip(CAPTURES, NAMES, strict=True):
        with TemporaryDirectory() as folder:
            Pipeline(Path(folder) / "lake", [ROOT / capture]).run(Path(folder) / "report.html")
            (GOLDEN / f"{name}.md").write_text(ticket(Path(folder) / "lake"), encoding="utf-8")
