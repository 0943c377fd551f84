"""The wheel in an empty environment, away from the checkout: what is in it, and the demo as in the checkout.

`make test-wheel` builds the wheel into dist/ first, twice, and compares the bytes.
"""

import json
import os
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT, capture

SECONDS = 1800
CLUSTER = "21tfq49NPifdoUlMc88lbQ"
IN_CHECKOUT = [sys.executable, "-m", "jobs.cli"]
# Files that are no Python: data, types, licence.
DATA = (
    *("evidence/py.typed", "evidence/wire/schemas/metadata_records.json", "jobs/collect/node.sh"),
    *("jobs/conf/bill_of_materials.cdx.json", "jobs/conf/defaults.toml", "jobs/conf/jars-s3.sha256"),
    *("jobs/conf/jars.sha256", "jobs/conf/pom.xml", "jobs/conf/s3-pom.xml"),
    *("kraft_forensics-0.1.0.dist-info/licenses/LICENSE", "replay/py.typed"),
)


@cache
def wheel() -> Path:
    (file,) = (ROOT / "dist").glob("*.whl")
    return file


PACKAGES = ("bench", "drill", "evidence", "jobs", "kraft_forensics", "quality", "replay")


def environment(**more: str) -> dict[str, str]:
    """Nothing of the checkout or of its virtual environment."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "KRAFT_", "SPARK_"))}
    return {**kept, **more}


def ran(words: list[str], cwd: Path, **variables: str) -> str:
    """What a command prints to stdout; it must succeed."""
    done = subprocess.run(words, cwd=cwd, env=environment(**variables), capture_output=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout.decode()[-3000:] + done.stderr.decode()[-3000:]
    return done.stdout.decode()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a virtual environment `venv` that has the locked requirements, the wheel, and its jars."""
    folder = tmp_path_factory.mktemp("home").resolve()
    ran([sys.executable, "-m", "venv", "venv"], folder)
    pip = ["venv/bin/python", "-m", "pip", "install", "--quiet", "--no-compile"]
    locks = ROOT / "requirements"
    ran([*pip, "--require-hashes", "-r", str(locks / "build.txt")], folder)
    ran([*pip, "--require-hashes", "--no-build-isolation", "-r", str(locks / "run.txt")], folder)
    ran([*pip, "--no-deps", str(wheel())], folder)
    ran(["venv/bin/kraft-forensics", "setup", "--from", str(ROOT / ".jars")], folder)
    return folder


def compiled(home: Path) -> list[Path]:
    """What numba has compiled."""
    return sorted(home.glob("venv/lib/*/site-packages/**/*.nbc"))


@pytest.fixture(scope="module")
def kept(home: Path) -> list[Path]:
    """What `setup` has compiled."""
    return compiled(home)


@pytest.fixture(scope="module")
def printed(home: Path, kept: list[Path]) -> str:
    """What the demo prints in `home`; it leaves `lake` there."""
    return ran(["venv/bin/kraft-forensics", *demo()], home)


def demo() -> list[str]:
    return ["run", str(capture("unclean")), "--lake", "lake", "--report", "report.html"]


def verdict(folder: Path) -> dict[str, Any]:
    """The verdict without what depends on the time and place of its run."""
    document = json.loads((folder / "lake" / f"verdict-{CLUSTER}.json").read_text(encoding="utf-8"))
    return {key: value for key, value in document.items() if key not in ("report", "made_from")}


def test_the_wheel_has_the_data_that_the_code_reads_and_no_tests() -> None:
    names = set(zipfile.ZipFile(wheel()).namelist())
    assert [name for name in DATA if name not in names] == []
    for folder in ("jobs/report/templates", "jobs/views", "drill/scenarios", "conf"):
        files = {file.name for file in (ROOT / folder).iterdir() if file.is_file() and file.suffix != ".pyc"}
        place = "jobs/conf" if folder == "conf" else folder
        assert {name for name in files if f"{place}/{name}" not in names} == set()
    tops = {name.partition("/")[0] for name in names}
    assert tops == {*PACKAGES, "kraft_forensics-0.1.0.dist-info"}


def test_every_module_of_the_checkout_is_in_the_wheel() -> None:
    names = set(zipfile.ZipFile(wheel()).namelist())
    modules = {file.relative_to(ROOT).as_posix() for package in PACKAGES for file in (ROOT / package).rglob("*.py")}
    assert modules - names == set()


def test_the_demo_gives_the_verdict_of_the_checkout(home: Path, printed: str, tmp_path: Path) -> None:
    here = ran([*IN_CHECKOUT, *demo()], tmp_path, PYTHONPATH=str(ROOT))
    assert verdict(home) == verdict(tmp_path)
    assert verdict(home)["valid"] is False
    assert printed.replace(str(home), "") == here.replace(str(tmp_path), "")
    assert len((home / "report.html").read_bytes()) == len((tmp_path / "report.html").read_bytes())


def test_spark_reads_the_tables_with_the_jars_that_setup_installed(home: Path, printed: str) -> None:
    query = "select count(*) as windows from findings where kind = 'hwm_regression' and verdict = 'proven'"
    answer = ran(["venv/bin/kraft-forensics", "sql", query, "--lake", "lake", "--format", "json"], home)
    assert json.loads(answer) == [{"windows": 3}]
    place = home / "venv" / "share" / "kraft-forensics" / "jars"
    assert (place / "classes.jsa").stat().st_size > 50_000_000  # what `setup` kept of Spark's classes
    assert f"7 in {place}, SHA-256 as listed" in ran(["venv/bin/kraft-forensics", "doctor", "--format", "csv"], home)


def test_setup_has_compiled_all_that_a_run_needs(home: Path, kept: list[Path], printed: str) -> None:
    source = "".join(file.read_text() for file in (ROOT / "evidence").rglob("*.py"))
    assert len(kept) == source.count("\n@compiled\n") > 0
    assert compiled(home) == kept


def test_nothing_comes_from_the_checkout(home: Path) -> None:
    code = "import bench, evidence, jobs.config.settings as s, quality, replay; print(s.conf_dir(), s.__file__)"
    for path in ran(["venv/bin/python", "-c", code], home).split():
        assert Path(path).is_relative_to(home / "venv")
    assert "No broken requirements found." in ran(["venv/bin/python", "-m", "pip", "check"], home)
