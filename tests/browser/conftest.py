"""A headless Chromium, the pages of real captures, and what a page asks of its browser."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from jobs.report.stage import write_pages
from tests.support.judged import judged_lake
from tests.support.paths import ROOT

CAPTURED = ROOT / "tests" / "captures"
# Every real capture. tests/captures/unclean-4.4.0 and examples/unclean have names of their own.
CAPTURES = ("examples/unclean.tar.xz", *sorted(f"tests/captures/{f.name}" for f in CAPTURED.glob("*.tar.xz")))
Open = Callable[..., "Shown"]


@dataclass
class Shown:
    """An open page, and what it wrote to the console, threw and asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def marks(self) -> int:
        """Number of marks of the timeline that the filters leave."""
        return self.page.locator("#lanes rect:not(.off)").count()

    def click(self, selector: str) -> None:
        """Click, and wait until the timeline is drawn anew, which happens before the next frame."""
        self.page.click(selector)
        self.drawn()

    def drawn(self) -> None:
        frame = "requestAnimationFrame"
        self.page.evaluate(f"() => new Promise(done => {frame}(() => {frame}(done)))")

    def address(self) -> str:
        """The page's own: Playwright hears of a new one a moment later."""
        return str(self.page.evaluate("location.href"))

    def span(self) -> tuple[int, int]:
        """The span that the timeline shows."""
        self.drawn()
        first, last = (self.page.locator("#lanes").get_attribute(f"data-shown-{end}") for end in ("from", "to"))
        return int(str(first)), int(str(last))


def sheets(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = subprocess.run([ROOT / "tests/browser/chromium.sh"], capture_output=True, text=True, check=True).stdout
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.path.realpath(path.strip()))
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Open a page, a file or its text. options: of Playwright's new_context."""
    contexts = []

    def open_(page: Path | str, anchor: str = "", **options: object) -> Shown:
        if isinstance(page, str):
            file = tmp_path / f"{len(contexts)}.html"
            file.write_text(page, encoding="utf-8")
        else:
            file = page
        contexts.append(browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options}))
        shown = Shown(contexts[-1].new_page())
        shown.page.on("console", lambda message: shown.complaints.append(message.text))
        shown.page.on("pageerror", lambda error: shown.complaints.append(str(error)))
        shown.page.on("dialog", lambda dialog: shown.complaints.append(dialog.message))
        shown.page.on("request", lambda request: shown.requests.append(request.url))
        shown.page.goto(file.as_uri() + anchor)
        return shown

    yield open_
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Name of a capture -> its report, without the checks of quality."""
    root = tmp_path_factory.mktemp("reports")
    found = {}
    for capture in CAPTURES:
        name = Path(capture).name.removesuffix(".tar.xz")
        found[name] = root / f"{name}.html"
        lake = judged_lake(root / name, ROOT / capture)
        write_pages(lake, lake.clusters(), found[name], lambda _: None)
    return found


@pytest.fixture(scope="session")
def unclean(pages: dict[str, Path]) -> Path:
    return pages["unclean"]
