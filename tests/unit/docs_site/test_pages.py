"""The pages of the documentation site: links, nav, the reference of the command line, nothing from another host."""

import re
from pathlib import Path

import pytest

from docs_site.cli_page import cli_page, commands
from docs_site.offline import loads
from docs_site.pages import gather, nav, page, with_links
from jobs.console.options import EXAMPLES
from tests.support.paths import ROOT


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("docs/verdict.md", "[a](../README.md)", "[a](overview.md)"),
        ("docs/verdict.md", "[a](findings.md#verdicts)", "[a](findings.md#verdicts)"),
        ("docs/adr/0001-forward-fill.md", "[a](../findings.md#verdicts)", "[a](../findings.md#verdicts)"),
        ("docs/howto/nightly.md", "[a](../../airflow_dags/README.md)", "[a](../airflow.md)"),
        ("README.md", "![a](docs/report.png) [b](docs/adr/)", "![a](report.png) b"),
        ("README.md", "[a](conf/defaults.toml)", "[a](settings.md)"),
        ("docs/evidence.md", "[a](../tests/samples/README.md), [b](https://kafka.apache.org)",
         "a, [b](https://kafka.apache.org)"),
        ("docs/verdict.md", "[a](#answer)\n```\n[b](../README.md)\n```", "[a](#answer)\n```\n[b](../README.md)\n```"),
    ],
)  # fmt: skip
def test_links_lead_to_pages_of_the_site(path: str, text: str, expected: str) -> None:
    assert with_links(text, path) == expected


def test_a_drawing_replaces_what_needs_a_script() -> None:
    assert "```mermaid" not in page("docs/architecture.md")
    assert "](images/data_flow.svg)" in page("docs/architecture.md")


def test_the_nav_names_every_page() -> None:
    config = "nav:\n  - Home: index.md\n  - More:\n      - Decisions: adr/*.md\n"
    filled = nav(config, {"index.md", "adr/2.md", "adr/1.md"})
    assert filled == (
        "nav:\n  - Home: index.md\n  - More:\n      - Decisions:\n          - adr/1.md\n          - adr/2.md\n"
    )
    with pytest.raises(ValueError, match=r"new\.md"):
        nav(config, {"index.md", "new.md"})
    with pytest.raises(ValueError, match=r"index\.md"):
        nav(config, {"adr/1.md"})


def test_all_pages_are_gathered(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "gone.md").touch()
    gather(tmp_path)
    found = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.*")}
    assert {"mkdocs.yml", "pages/index.md", "pages/overview.md", "pages/images/elr.svg", "pages/site.css"} <= found
    assert "pages/gone.md" not in found
    assert 'driver_memory = "2g"' in (tmp_path / "pages" / "settings.md").read_text()


def test_the_command_lines_page_has_every_command_and_its_examples() -> None:
    text = cli_page()
    assert re.findall(r"^## (.*)", text, re.MULTILINE) == [name for name, _ in commands()]
    assert {name for name, _ in commands()} == set(EXAMPLES)
    for examples in EXAMPLES.values():
        assert all(f"\n{example}\n" in text for example in examples)
    assert "| `--node ID=WHERE` | A node: " in text
    assert "| `--format` | Output format. " in text


@pytest.mark.parametrize(
    ("html", "count"),
    [
        ('<script src="https://example.org/a.js"></script>', 1),
        ("<link rel=stylesheet href=https://example.org/a.css>", 1),
        ('<img alt="x" src="http://example.org/a.png">', 1),
        ('<a href="https://example.org">a</a> <script src="assets/a.js"></script> <img src="a.png">', 0),
    ],
)
def test_what_a_page_loads_from_another_host_is_found(html: str, count: int) -> None:
    assert len(loads(html)) == count


def test_each_image_is_on_a_page() -> None:
    shown = page("docs/architecture.md") + (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    assert {file.name for file in (ROOT / "docs" / "images").iterdir()} == set(re.findall(r"\(images/(.+?)\)", shown))
