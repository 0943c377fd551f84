"""The pages for people: names, files, functions, anchors and tests that exist; rules and codes without a gap."""

import csv
import inspect
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import evidence.api
import replay.api
from replay.findings.statements import SENTENCES, TEXTS
from tests.faults.matrix import trials
from tests.faults.table import PAGE, markdown, read
from tests.support.page_examples import examples, failures
from tests.support.paths import ROOT, text_with_table, unpacked
from tests.support.s3 import Store

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "docs/howto/*.md", "docs/adr/*.md")
    for path in ROOT.glob(pattern)
)
FOLDERS = (
    "airflow_dags|bench|conf|docs|docs_site|drill|evidence|examples|"
    "jobs|kraft_forensics|quality|replay|requirements|tests"
)
# A path from the repository's root; after one or two colons a name that the file defines. <what> and * stand for
# anything.
CODE_PATH = re.compile(rf"(?<![\w/.~-])(?P<path>(?:{FOLDERS})/[\w.*/<>-]*)(?:::?(?P<name>[A-Za-z_]\w*))?")
# A file without its folder.
FILE_NAME = re.compile(r"`(?P<name>\w+\.(?:py|java))`")
NOT_OURS = {"driver.py"}  # a file that the reader writes (docs/cluster.md)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(?P<title>.+?) *$", re.MULTILINE)
LAYERS = re.compile(r"^- `(?P<package>\w+)/`: `(?P<layers>[^`]+)`$", re.MULTILINE)


def text_of(page: str) -> str:
    """A page; of the CHANGELOG its newest section: the older ones are history."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return "## ".join(text.split("\n## ")[:2]) if page == "CHANGELOG.md" else text


def anchors_of(text: str) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    found: Counter[str] = Counter()
    anchors = set()
    for heading in HEADING.finditer(FENCE.sub("", text)):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading["title"]).lower()
        slug = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
        anchors.add(f"{slug}-{found[slug]}" if found[slug] else slug)
        found[slug] += 1
    return anchors


def broken(page: str, text: str) -> list[str]:
    """What a page at that path, with that text, names and the repository lacks."""
    return [*_broken_links(page, text), *_broken_paths(text), *_unknown_files(text)]


def _broken_links(page: str, text: str) -> Iterator[str]:
    for link in LINK.finditer(FENCE.sub("", text)):
        target, _, anchor = link["target"].partition("#")
        if ":" in target:
            continue  # a URL
        file = ((ROOT / page).parent / target).resolve() if target else ROOT / page
        if target and not file.exists():
            yield f"link to {link['target']}: there is no {target}"
        elif anchor and anchor not in anchors_of(file.read_text(encoding="utf-8") if target else text):
            yield f"link to {link['target']}: no heading has that anchor"


def _broken_paths(text: str) -> Iterator[str]:
    for found in CODE_PATH.finditer(text):
        path = re.sub(r"<\w*>", "*", found["path"]).rstrip(".")
        files = list(ROOT.glob(path)) if "*" in path else [ROOT / path]
        if not files or not files[0].exists():
            yield f"{found[0]}: there is no {path}"
        elif found["name"] and not any(_defines(file, found["name"]) for file in files):
            yield f"{found[0]}: {path} defines no {found['name']}"


def _defines(file: Path, name: str) -> bool:
    definition = rf"^(?:\s*(?:def|class) {name}\b|{name}\b)" if file.suffix == ".py" else rf"\b{name}\b"
    return re.search(definition, text_with_table(file), re.MULTILINE) is not None


def _unknown_files(text: str) -> Iterator[str]:
    for found in FILE_NAME.finditer(text):
        if found["name"] not in _file_names() | NOT_OURS:
            yield f"{found['name']}: no file has that name"


@cache
def _file_names() -> frozenset[str]:
    return frozenset(path.name for folder in FOLDERS.split("|") for path in (ROOT / folder).rglob("*.*"))


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_exists(page: str) -> None:
    assert broken(page, text_of(page)) == []


@pytest.mark.parametrize(
    "text",
    [
        *("see replay/loss/no_such_module.py", "`jobs/no_such_room/`", "`replay/loss/verdict.py:no_such_function`"),
        *("`tests/unit/test_docs.py::test_no_such_test`", "`tests/cases/no_such_case_*`"),
        *("`tests/cases/no_such_<case>`", "`no_such_module.py`", "[a page](no-such-page.md)"),
        *("[a page](rules.md#no-such-anchor)", "[a page](../docs/no-such-page.md#profiles)", "# One\n[below](#two)"),
        "# One\n```\n# Two\n```\n[below](#two)",
    ],
)
def test_what_does_not_exist_is_found(text: str) -> None:
    assert len(broken("docs/made_up.md", text)) == 1


def test_the_architecture_page_has_the_layers_of_the_import_contracts() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = [c for c in project["tool"]["importlinter"]["contracts"] if c["type"] == "layers"]
    listed = {row["package"]: row["layers"] for row in LAYERS.finditer(text_of("docs/architecture.md"))}
    assert listed == {c["containers"][0]: " > ".join(c["layers"]) for c in contracts}


def test_the_architecture_page_names_every_room() -> None:
    found = [path.parent for name in ("evidence", "replay", "jobs") for path in ROOT.glob(f"{name}/*/__init__.py")]
    page = text_of("docs/architecture.md")
    assert [room.name for room in found if f"`{room.relative_to(ROOT).as_posix()}/`" not in page] == []


FINDINGS = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
WINDOWS = FINDINGS[FINDINGS.index("## `hwm_regression`") : FINDINGS.index("## What would have been")]
REFERENCES = sorted(set(re.findall(r"`(tests/[^`\s]+)`", FINDINGS)))
RULES = re.compile(r"^- \*\*(?P<letter>[A-Z])(?P<number>\d+)\. ", re.MULTILINE)
ROW = re.compile(r"^- (?P<codes>`[^(]+`) \((?P<nature>[a-z]+)\): ", re.MULTILINE)


def test_every_code_of_windows_is_in_the_table_with_its_nature() -> None:
    listed = {
        code: row["nature"] for row in ROW.finditer(WINDOWS) for code in re.findall(r"`([a-z_0-9]+)`", row["codes"])
    }
    assert listed == {code: SENTENCES[code][0] for code in TEXTS["window"]}


@pytest.mark.parametrize("reference", REFERENCES)
def test_every_case_that_is_named_exists(reference: str) -> None:
    path, _, name = reference.partition("::")
    assert (ROOT / path).exists()
    if name:
        assert re.search(rf"^(def )?{re.escape(name)}\b", text_with_table(ROOT / path), re.MULTILINE)


def test_rules_are_numbered_without_a_gap_and_have_cases() -> None:
    numbers: dict[str, list[int]] = {}
    for rule in RULES.finditer(WINDOWS):
        numbers.setdefault(rule["letter"], []).append(int(rule["number"]))
    assert {letter: own == list(range(1, len(own) + 1)) for letter, own in numbers.items()} == dict.fromkeys(
        "PEHCUNL", True
    )
    assert len(REFERENCES) > 40


def test_rules_that_are_referred_to_exist() -> None:
    known = {rule["letter"] + rule["number"] for rule in RULES.finditer(WINDOWS)}
    assert set(re.findall(r"\b([PEHCUNL]\d+)\b", WINDOWS)) <= known


NUMBERED = ROOT / "docs" / "fault_tests.csv"
TEST = re.compile(r"(tests/[\w/]+\.py)::(test_\w+)")
FAULTS = 62


def test_each_fault_has_tests_that_exist() -> None:
    with NUMBERED.open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert [int(row["number"]) for row in found] == list(range(1, FAULTS + 1))
    for row in found:
        assert row["fault"]
        assert row["result"]
        named = [TEST.fullmatch(test) for test in row["tests"].split()]
        assert named
        for test in named:
            assert test is not None, row
            text = text_with_table(ROOT / test[1])
            assert re.search(rf"^(def {test[2]}\(|{test[2]}:)", text, re.MULTILINE), test[0]


def test_the_record_has_every_fault_that_is_tried_and_the_page_its_sums() -> None:
    nowhere = Store("", None, Path())
    wanted = dict.fromkeys((fault, where) for fault, where, _ in trials(1, 20, nowhere, ROOT))
    found = read()
    assert list(found) == list(wanted)
    for name, line in found.items():
        assert line.tried or line.run.startswith("not tried: "), name
    assert markdown(found, "").lstrip() in PAGE.read_text(encoding="utf-8")


API = "docs/api.md"
PURE = [block for block in examples(API) if "spark" not in block]


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked("unclean", tmp_path, "controllers", "disks")
    monkeypatch.chdir(tmp_path)
    assert failures(PURE, {}) == ""
    assert len(PURE) == len(examples(API)) - 1 == 5


def test_a_wrong_example_fails() -> None:
    assert "Expected:\n    3" in failures([">>> 1 + 1\n3\n"], {})


@pytest.mark.parametrize("module", [evidence.api, replay.api])
def test_public_names_are_documented(module: ModuleType) -> None:
    public = [getattr(module, name) for name in module.__all__]
    assert [p.__name__ for p in public if callable(p) and not inspect.getdoc(p)] == []
    page = (ROOT / API).read_text(encoding="utf-8")
    functions = [p.__name__ for p in public if inspect.isfunction(p)]
    assert [name for name in functions if f"`{name}(" not in page] == []
