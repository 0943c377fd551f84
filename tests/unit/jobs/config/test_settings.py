"""Settings: where they come from, and what a wrong one says."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.config.settings import SettingsError, load_settings


def test_defaults_are_the_documented_file() -> None:
    settings = load_settings()
    assert settings.evidence.snapshot_duration_ms == 5000
    names = settings.metrics.names()
    assert names.topic_label == "topic"
    for field, metric in (("in_sync_replicas_count", "InSyncReplicasCount"), ("under_min_isr", "UnderMinIsr")):
        spelt = f"kafka_cluster_Partition_{metric}"
        assert [m for m, f in names.fields().items() if f == field] == [spelt, spelt.lower(), f"{spelt}_Value"]
    assert names.process_start_time_seconds == ("process_start_time_seconds",)


def test_a_key_of_a_sites_session_does_not_drop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = load_settings().spark
    own = tmp_path / "site.toml"
    own.write_text('[spark.conf]\n"spark.ui.enabled" = "true"\n')
    monkeypatch.setenv("KRAFT_FORENSICS_CONF", str(own))
    spark = load_settings().spark
    assert spark.conf == {**before.conf, "spark.ui.enabled": "true"}
    assert before.conf
    assert spark.master == before.master


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[evidence]\nclock_error_ms = -1\n", "evidence.clock_error_ms"),
        ("[evidence]\nclock_error_ms = 31536000001\n", "evidence.clock_error_ms"),
        ("[evidence]\nclock_error_ms = 9223372036854775807\n", "evidence.clock_error_ms"),
        ("[evidence]\nsnapshot_duration_ms = 31536000001\n", "evidence.snapshot_duration_ms"),
        ("[evidence]\nclock_eror_ms = 1\n", "evidence.clock_eror_ms"),
        ("[nothing]\na = 1\n", "nothing"),
        ("not toml", "site.toml"),
    ],
)
def test_a_wrong_setting_is_named(text: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "site.toml"
    own.write_text(text)
    monkeypatch.setenv("KRAFT_FORENSICS_CONF", str(own))
    with pytest.raises(SettingsError, match=named) as caught:
        load_settings()
    assert caught.value.exit_code == 2
