"""Settings: where they come from, what a wrong one says; the jars of this version, installed whole or not at all."""

import hashlib
import json
import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from jobs.config.jars import JarList, JarsError, delta_jars, install, s3_jars
from jobs.config.settings import SettingsError, load_settings
from tests.support.invoked import invoke
from tests.support.paths import ROOT

PREFIX = "KRAFT_FORENSICS_"


def shown(*extra: str) -> dict[str, dict[str, Any]]:
    """The rows by setting."""
    result = invoke(["config", "show", "--format", "json", *extra])
    assert result.exit_code == 0, result.output
    return {row["setting"]: row for row in json.loads(result.stdout)}


def site(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> str:
    file = folder / "site.toml"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    monkeypatch.setenv(f"{PREFIX}CONF", str(file))
    return str(file)


@pytest.fixture(autouse=True)
def _no_setting_of_the_suites(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)


def test_without_a_file_everything_is_a_default() -> None:
    rows = shown()
    assert {row["origin"] for row in rows.values()} == {"default"}
    assert rows["evidence.snapshot_duration_ms"]["value"] == 5000
    assert rows["counterfactuals.min_isr"]["value"] == [1, 2, 3]
    assert rows["spark.conf.spark.databricks.delta.snapshotPartitions"]["value"] == "1"
    sections = {name.split(".")[0] for name in rows}
    assert sections == set(type(load_settings()).model_fields)


def test_a_file_is_the_origin_of_what_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '[evidence]\nclock_error_ms = 250\n[spark.conf]\n"spark.ui.port" = "0"\n'
    file = site(monkeypatch, tmp_path, f'{text}[metrics]\ntopic_label = "kafka_topic"\n')
    rows = shown()
    named = {"evidence.clock_error_ms": 250, "spark.conf.spark.ui.port": "0", "metrics.topic_label": "kafka_topic"}
    assert {n: r["value"] for n, r in rows.items() if r["origin"] == file} == named
    assert {r["origin"] for n, r in rows.items() if n not in named} == {"default"}


def test_the_environment_is_the_origin_where_it_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site(monkeypatch, tmp_path, "[evidence]\nclock_error_ms = 250\n")
    monkeypatch.setenv(f"{PREFIX}EVIDENCE__CLOCK_ERROR_MS", "300")
    row = shown()["evidence.clock_error_ms"]
    assert (row["value"], row["origin"]) == (300, f"{PREFIX}EVIDENCE__CLOCK_ERROR_MS")


def test_a_section_as_json_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}SPARK", json.dumps({"driver_memory": "3g", "conf": {"spark.ui.port": "0"}}))
    monkeypatch.setenv(f"{PREFIX}spark__Master", "local[1]")
    rows = shown()
    assert rows["spark.driver_memory"]["origin"] == rows["spark.conf.spark.ui.port"]["origin"] == f"{PREFIX}SPARK"
    assert (rows["spark.master"]["value"], rows["spark.master"]["origin"]) == ("local[1]", f"{PREFIX}spark__Master")
    assert rows["spark.shuffle_partitions"]["origin"] == "default"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("ENGIN", "ENGINE"),
        ("SPAKR__MASTER", "SPARK__MASTER"),
        ("EVIDENCE__CLOCK_EROR_MS", "EVIDENCE__CLOCK_ERROR_MS"),
        ("evidence_clock_error_ms", "EVIDENCE__CLOCK_ERROR_MS"),
        ("CLOCK_ERROR_MS", "EVIDENCE__CLOCK_ERROR_MS"),
        ("CONV", "CONF"),
        ("XYZ", None),
    ],
)
def test_a_misspelt_variable_is_an_error_with_the_nearest_name(
    name: str, near: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PREFIX + name, "1")
    with pytest.raises(SettingsError) as caught:
        load_settings()
    meanings = "(defaults and meanings: conf/defaults.toml)"
    nearest = f", {PREFIX}{near} is" if near else ""
    assert str(caught.value) == f"{PREFIX}{name}: is no setting{nearest} {meanings}"


def test_a_variable_that_is_no_json_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}EVIDENCE__LOG_PATTERNS", "%d %m")
    with pytest.raises(SettingsError, match=f"^{PREFIX}EVIDENCE__LOG_PATTERNS: lists and tables are written as JSON"):
        load_settings()


def test_a_file_of_notepad_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site(monkeypatch, tmp_path, "\ufeff[evidence]\r\nclock_error_ms = 5\r\n")
    assert load_settings().evidence.clock_error_ms == 5


def test_variables_for_others_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    kubernetes = ("SERVICE_HOST", "WEB_SERVICE_PORT_HTTP", "PORT", "WEB_PORT_80_TCP_ADDR")
    for name in ("BIN", "CONF", "DAG_RETRIES", *kubernetes):
        monkeypatch.setenv(PREFIX + name, "")
    monkeypatch.setenv(f"{PREFIX}QUALITY__SEVERITY__FINDINGS", "warn")
    assert load_settings().quality.severity == {"findings": "warn"}


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_secrets_are_redacted(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hunter2"
    conf = {
        "spark.ssl.keyStorePassword": secret,
        "spark.authenticate.SECRET": secret,
        "spark.hadoop.fs.s3a.session.token": secret,
        "spark.hadoop.fs.s3a.access.key": secret,
        "spark.kafka.sasl.jaas.config": secret,
        "spark.executor.extraJavaOptions": f'-Dfile.encoding=UTF-8 -Djavax.net.ssl.trustStorePassword="{secret} x" -ea',
        "spark.hadoop.proxy": f"http://{secret}:{secret}@proxy:3128/",
    }
    monkeypatch.setenv(f"{PREFIX}SPARK__CONF", json.dumps(conf))
    monkeypatch.setenv(f"{PREFIX}SPARK__DRIVER_JAVA_OPTIONS", f"-Dmy.api.token={secret}")
    result = invoke(["config", "show", "--format", form])
    assert result.exit_code == 0
    assert secret not in result.output
    rows = shown()
    assert {rows[f"spark.conf.{name}"]["value"] for name in list(conf)[:5]} == {"[redacted]"}
    options = "-Dfile.encoding=UTF-8 -Djavax.net.ssl.trustStorePassword=[redacted] -ea"
    assert rows["spark.conf.spark.executor.extraJavaOptions"]["value"] == options
    assert rows["spark.conf.spark.hadoop.proxy"]["value"] == "http://[redacted]@proxy:3128/"
    assert rows["spark.driver_java_options"]["value"] == "-Dmy.api.token=[redacted]"


def test_defaults_are_the_documented_file() -> None:
    settings = load_settings()
    assert settings.evidence.snapshot_duration_ms == 5000
    names = settings.metrics
    assert names.topic_label == "topic"
    for field, metric in (("in_sync_replicas_count", "InSyncReplicasCount"), ("under_min_isr", "UnderMinIsr")):
        spelt = f"kafka_cluster_Partition_{metric}"
        assert [m for m, f in names.fields().items() if f == field] == [spelt, spelt.lower(), f"{spelt}_Value"]
    assert names.process_start_time_seconds == ("process_start_time_seconds",)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[evidence]\nclock_error_ms = -1\n", "evidence.clock_error_ms"),
        ("[evidence]\nclock_error_ms = 31536000001\n", "evidence.clock_error_ms"),
        ("[evidence]\nclock_error_ms = 9223372036854775807\n", "evidence.clock_error_ms"),
        ("[evidence]\nsnapshot_duration_ms = 31536000001\n", "evidence.snapshot_duration_ms"),
        ("[evidence]\nclock_eror_ms = 1\n", "clock_eror_ms: is no setting, evidence.clock_error_ms is"),
        ("[nothing]\na = 1\n", r"setting nothing: is no setting \("),
        ("[evidence]\nlog_patterns = ['%p']\n", "^setting evidence.log_patterns: log pattern '%p' has no %m"),
        ("[evidence]\nlog_patterns = ['(?P<message>(?!x).*)']\n", r"is not a regular expression of RE2: .*\(\?!"),
        ("not toml", "site.toml"),
        ("# caf\udce9", "site.toml: cannot be read: 'utf-8' codec can't decode byte 0xe9"),
    ],
)
def test_a_wrong_setting_is_named(text: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site(monkeypatch, tmp_path, text)
    with pytest.raises(SettingsError, match=named) as caught:
        load_settings()
    assert caught.value.exit_code == 2


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
    (tmp_path / "jars" / "classes.jsa").write_bytes(b"damaged")
    assert invoke(["setup"]).stdout == f"7 jars in {tmp_path}/jars, SHA-256 as listed, as before\n"
    doctor = ["doctor", "--lake", str(tmp_path), "--format", "csv"]
    assert f"7 in {tmp_path}/jars, SHA-256 as listed" in invoke(doctor).stdout
    next((tmp_path / "jars").glob("delta-spark*")).write_bytes(b"other")
    changed = invoke(doctor)
    assert (changed.exit_code, "its SHA-256 is" in changed.stdout) == (1, True)
