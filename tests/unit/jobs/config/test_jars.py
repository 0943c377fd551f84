"""The jars of this version: listed with their digests, installed whole or not at all."""

from __future__ import annotations

import hashlib
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from jobs.config.jars import JarList, JarsError, delta_jars, install, s3_jars
from tests.support.invoked import invoke
from tests.support.paths import ROOT

CONTENTS = {"a-1.jar": b"first", "b-2.jar": b"second"}
LIST = JarList(Path("pom.xml"), {name: hashlib.sha256(data).hexdigest() for name, data in CONTENTS.items()})


def folder_of(place: Path, contents: dict[str, bytes]) -> Path:
    place.mkdir()
    for name, data in contents.items():
        (place / name).write_bytes(data)
    return place


def jars_in(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_jars_of_a_folder_are_installed_and_others_deleted(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "source", CONTENTS | {"unrelated.jar": b"x"})
    target = folder_of(tmp_path / "target", {"a-0.jar": b"old", "a-1.jar": b"damaged"})
    assert install(LIST, target, source)
    assert jars_in(target) == CONTENTS
    assert not install(LIST, target, tmp_path / "no such folder")


@pytest.mark.parametrize(
    ("contents", "line"),
    [({"a-1.jar": b"first"}, "b-2.jar: missing"), (CONTENTS | {"b-2.jar": b"changed"}, "b-2.jar: its SHA-256 is ")],
)
def test_other_jars_are_refused_and_nothing_changes(tmp_path: Path, contents: dict[str, bytes], line: str) -> None:
    source, target = folder_of(tmp_path / "source", contents), folder_of(tmp_path / "target", {"a-0.jar": b"old"})
    with pytest.raises(JarsError, match=re.escape(line)):
        install(LIST, target, source)
    assert jars_in(target) == {"a-0.jar": b"old"}


def test_a_jar_that_is_not_listed_is_a_difference(tmp_path: Path) -> None:
    assert LIST.differences(folder_of(tmp_path / "jars", CONTENTS | {"c-3.jar": b""})) == ["c-3.jar: not listed"]


def test_without_maven_the_error_says_how_to_bring_the_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JarsError, match=r"setup --from DIR`:\n  mvn .*pom.xml dependency:copy-dependencies"):
        install(LIST, tmp_path / "target")


def test_a_maven_that_fails_ends_with_what_it_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho '[ERROR] no such artifact'\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(JarsError, match=r"cannot fetch the jars:\n  \[ERROR\] no such artifact"):
        install(LIST, tmp_path / "target")


def test_the_lists_have_each_jar_that_the_poms_name() -> None:
    for jars in (delta_jars(), s3_jars()):
        pom = ET.parse(jars.pom).getroot()
        names = {"m": "http://maven.apache.org/POM/4.0.0"}
        texts = {p.tag.partition("}")[2]: p.text or "" for p in pom.findall("m:properties/*", names)}
        for dependency in pom.findall("m:dependencies/m:dependency", names):
            artifact = dependency.findtext("m:artifactId", "", names)
            version = re.sub(
                r"\$\{(.+)\}", lambda m, texts=texts: texts[m[1]], dependency.findtext("m:version", "", names)
            )
            assert f"{artifact}-{version}.jar" in jars.sha256
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in jars.sha256.values())


def test_setup_takes_the_jars_from_a_folder_and_doctor_compares_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRAFT_FORENSICS_SPARK__JARS_DIR", str(tmp_path / "jars"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # without Java nothing is kept for it (tests/wheel has that)
    first = invoke(["setup", "--from", str(ROOT / ".jars")])
    monkeypatch.delenv("JAVA_HOME")
    assert (first.exit_code, first.stdout) == (0, f"7 jars in {tmp_path}/jars, SHA-256 as listed\n")
    (tmp_path / "jars" / "spark.jsa").write_bytes(b"damaged")
    assert invoke(["setup"]).stdout == f"7 jars in {tmp_path}/jars, SHA-256 as listed, as before\n"
    doctor = ["doctor", "--lake", str(tmp_path), "--format", "csv"]
    assert f"7 in {tmp_path}/jars, SHA-256 as listed" in invoke(doctor).stdout
    next((tmp_path / "jars").glob("delta-spark*")).write_bytes(b"other")
    changed = invoke(doctor)
    assert (changed.exit_code, "its SHA-256 is" in changed.stdout) == (1, True)
