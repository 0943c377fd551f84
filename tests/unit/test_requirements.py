"""Lock files: every requirement of the project with version and digests, and no place to fetch it from."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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
    assert len([line for line in lines if not line.startswith(" ")]) == len(pins(lock)) > 1
    assert "://" not in text


def test_the_locks_meet_what_the_project_requires() -> None:
    project = PROJECT["project"]
    run, extras = project["dependencies"], project["optional-dependencies"]
    assert missing(run + extras["s3"], "run.txt") == []
    assert missing(run + extras["dev"], "dev.txt") == []
    assert missing(PROJECT["build-system"]["requires"], "build.txt") == []
    for lock in ("airflow", "build", "tools"):
        lines = (FOLDER / f"{lock}.in").read_text(encoding="utf-8").splitlines()
        assert missing([line for line in lines if not line.startswith("#")], f"{lock}.txt") == []


def test_what_runs_is_what_was_tested() -> None:
    run, dev = pins("run.txt"), pins("dev.txt")
    assert {name: dev.get(name) for name in run} == run


def test_an_unmet_requirement_is_found() -> None:
    assert missing(["pyspark<4", "no-such-package", "rich"], "run.txt") == ["pyspark<4", "no-such-package"]
