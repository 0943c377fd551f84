"""Lock files: every requirement of the project with version and digests, and no place to fetch it from."""

import json
import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from jobs.config.jars import delta_jars, s3_jars
from requirements.audit import CONTROL, lines_of, newest
from requirements.bill_of_materials import BILL, PAGE, page
from tests.support.paths import ROOT

FOLDER = ROOT / "requirements"
LOCKS = sorted(file.name for file in FOLDER.glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PIN = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>\S+)(?P<marker> ; .*)?(?P<digests>(?: \\\n    --hash=sha256:[0-9a-f]{64})+)$",
    re.M,
)


def pins(name: str) -> dict[str, str]:
    """The version of each package in a lock file."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    return {canonicalize_name(pin["name"]): pin["version"] for pin in PIN.finditer(text)}


def missing(wanted: list[str], lock: str) -> list[str]:
    """The requirements that a lock file does not meet."""
    have, needed = pins(lock), map(Requirement, wanted)
    return [
        str(r)
        for r in needed
        if not r.specifier.contains(have.get(canonicalize_name(r.name), "0"), prereleases=True)
        or canonicalize_name(r.name) not in have
    ]


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_has_a_version_and_digests_and_no_place(lock: str) -> None:
    text = (FOLDER / lock).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    assert len([line for line in lines if not line.startswith(" ")]) == len(PIN.findall(text)) > 0
    assert "://" not in text


def test_the_locks_meet_what_the_project_requires() -> None:
    project = PROJECT["project"]
    run, extras = project["dependencies"], project["optional-dependencies"]
    assert missing(run + extras["s3"], "run.txt") == []
    assert missing(run + extras["dev"], "dev.txt") == []
    assert missing(PROJECT["build-system"]["requires"], "build.txt") == []
    for lock in ("airflow", "airflow-spark", "build", "docs", "fuzz", "tools"):
        lines = (FOLDER / f"{lock}.in").read_text(encoding="utf-8").splitlines()
        assert missing([line for line in lines if not line.startswith(("#", "-c "))], f"{lock}.txt") == []


def test_what_runs_is_what_was_tested() -> None:
    run, dev = pins("run.txt"), pins("dev.txt")
    assert {name: dev.get(name) for name in run} == run


def test_the_bill_of_materials_has_what_is_locked_and_the_jars() -> None:
    bill = json.loads(BILL.read_text(encoding="utf-8"))
    python = [c for c in bill["components"] if c["purl"].startswith("pkg:pypi/")]
    text = (FOLDER / "run.txt").read_text(encoding="utf-8")
    everywhere = [pin for pin in PIN.finditer(text) if "sys_platform" not in pin[0]]
    wanted = {canonicalize_name(pin["name"]): pin["version"] for pin in everywhere}
    assert {canonicalize_name(c["name"]): c["version"] for c in python} == wanted
    jars = {f"{c['name']}-{c['version']}.jar": c["hashes"] for c in bill["components"] if "group" in c}
    listed = delta_jars().sha256 | s3_jars().sha256
    assert jars == {name: [{"alg": "SHA-256", "content": digest}] for name, digest in listed.items()}
    assert bill["metadata"]["component"]["version"] == PROJECT["project"]["version"]


def test_the_page_of_licences_is_that_of_the_bill() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(json.loads(BILL.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("packages", "code", "last"),
    [
        ([{"name": "a", "version": "1", "vulns": []}], 0, "lock: 1 of 1 packages looked up, 0 known vulnerabilities"),
        (
            [{"name": "a", "version": "1", "vulns": [{"id": "X-1", "fix_versions": ["2"]}]}],
            1,
            "lock: 1 of 1 packages looked up, 1 known vulnerabilities",
        ),
        ([{"name": "a", "skip_reason": "not found"}], 2, "lock: NOT KNOWN for 1 packages: not found"),
    ],
)
def test_an_audit_says_what_it_could_not_look_up(packages: list[dict[str, object]], code: int, last: str) -> None:
    lines, result = lines_of("lock", packages)
    assert (lines[-1], result) == (last, code)
    assert ("lock: a 1 has X-1; fixed in 2" in lines) == (code == 1)


def answer(version: str, *ids: str, withdrawn: str | None = None) -> dict[str, object]:
    """As the index's JSON API answers about a package's newest version."""
    found = [{"id": name, "fixed_in": ["9"], "withdrawn": withdrawn} for name in ids]
    return {"info": {"version": version}, "vulnerabilities": found}


def test_what_an_index_says_of_a_newest_version_is_an_answer_for_that_version_alone() -> None:
    skipped = [{"name": name, "skip_reason": "not found"} for name in ("new", "bad", "old", "unknown", "withdrawn")]
    known = {"name": "a", "version": "1", "vulns": []}
    index = {
        CONTROL: answer("1", "X-0"),
        "new": answer("1"),
        "bad": answer("1", "X-1"),
        "old": answer("2"),
        "withdrawn": answer("1", "X-2", withdrawn="2026-01-01"),
    }
    lock = dict.fromkeys(("new", "bad", "old", "unknown", "withdrawn"), "1")
    found = newest([known, *skipped], lock, index.get)
    assert [p["name"] for p in found] == ["a", *(p["name"] for p in skipped)]
    assert [p["name"] for p in found if "skip_reason" in p] == ["old", "unknown"]
    assert [(p["name"], p["vulns"]) for p in found if p.get("vulns")] == [
        ("bad", [{"id": "X-1", "fix_versions": ["9"]}])
    ]


@pytest.mark.parametrize("control", [None, {}, answer("1"), {"info": {"version": "1"}}])
def test_an_index_that_knows_no_vulnerability_of_the_control_is_not_believed(control: object) -> None:
    skipped = [{"name": "new", "skip_reason": "not found"}]
    assert newest(skipped, {"new": "1"}, {CONTROL: control, "new": answer("1")}.get) == skipped
