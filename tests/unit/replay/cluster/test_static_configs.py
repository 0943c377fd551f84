"""What nodes' files say of configs that rules rest on."""

import pytest

from replay.cluster.configs import MIN_ISR, UNCLEAN_LEADER_ELECTION, config_timeline, of_all_captures
from replay.cluster.facts import REQUEST_THREADS, SESSION_TIMEOUT, Clock, cluster_facts
from replay.cluster.state import log_shape, resolve_cluster
from tests.support.records import batch, leader


@pytest.mark.parametrize(
    ("file", "source", "threads"),
    [
        ({}, "static", {1: 8}),
        ({SESSION_TIMEOUT: " 18000 ", REQUEST_THREADS: "16"}, "static", {1: 16}),
        # Kafka reads these from its environment.
        ({SESSION_TIMEOUT: "${env:SESSION}", REQUEST_THREADS: "16"}, "assumed_default", {1: 16}),
        ({REQUEST_THREADS: "${env:THREADS}"}, "static", {}),
    ],
)
def test_a_value_that_is_elsewhere_is_not_known(file: dict[str, str], source: str, threads: dict[int, int]) -> None:
    static = {1: {"process.roles": "broker,controller", **file}}
    facts = cluster_facts("c", resolve_cluster(log_shape([], []), [], [], static), Clock(), None)
    assert (facts.session_timeout_source, facts.request_threads) == (source, threads)


@pytest.mark.parametrize(
    ("files", "is_apart"),
    [
        # By default it is in the first of log.dirs.
        ([{"log.dirs": "/a, /b"}], False),
        ([{"log.dirs": "/a, /b", "metadata.log.dir": "/b"}], False),
        ([{"log.dir": "/a", "metadata.log.dir": "/a"}], False),
        ([{"log.dirs": "/a, /b"}, {"log.dirs": "/a,/c"}], False),
        ([{"log.dirs": "/a, /b"}, {"log.dirs": "/b,/a"}], True),
        ([{"log.dirs": "/a", "metadata.log.dir": "/m"}], True),
        ([{"log.dirs": "/a,/b"}, {"log.dirs": "/a,/b", "metadata.log.dir": "/b"}], True),
    ],
)
def test_the_metadata_log_may_be_on_a_disk_of_its_own(files: list[dict[str, str]], is_apart: bool) -> None:
    static = {1: of_all_captures([{"process.roles": "broker"} | file for file in files])}
    facts = cluster_facts("c", resolve_cluster(log_shape([], []), [], [], static), Clock(), None)
    assert (1 in facts.metadata_apart) == is_apart


def test_a_timeout_is_assumed_if_one_controllers_file_does_not_show_it() -> None:
    file = {"process.roles": "controller"}
    static = {1: {**file, SESSION_TIMEOUT: "${env:SESSION}"}, 2: {**file, SESSION_TIMEOUT: "6000"}}
    facts = cluster_facts("c", resolve_cluster(log_shape([], []), [], [], static), Clock(), None)
    assert (facts.session_timeout_source, facts.session_timeout_ms) == ("assumed_default", 9_000)


def test_a_timeout_is_assumed_if_the_file_of_an_active_controller_was_not_captured() -> None:
    at = {"base_timestamp_ms": 0}
    shape = log_shape([{**batch(0, 0), **at}, {**batch(1, 1, epoch=2), **at}], [])
    records = [leader(0, 1), leader(1, 2, epoch=2)]
    static = {1: {"process.roles": "controller", SESSION_TIMEOUT: "3000"}, 3: {"process.roles": "broker"}}
    facts = cluster_facts("c", resolve_cluster(shape, records, [], static), Clock(), None)
    assert (facts.session_timeout_source, facts.session_timeout_ms) == ("assumed_default", 9_000)


def test_of_a_file_that_was_edited_between_two_captures_the_longest_times_and_nothing_else_count() -> None:
    before = {"process.roles": "broker,controller", SESSION_TIMEOUT: "60000", REQUEST_THREADS: "4", MIN_ISR: "2"}
    after = before | {SESSION_TIMEOUT: "9000", MIN_ISR: "1", UNCLEAN_LEADER_ELECTION: "true"}
    del after[REQUEST_THREADS]
    for files in ([before, after], [after, before]):
        static = {1: of_all_captures(files)}
        facts = cluster_facts("c", resolve_cluster(log_shape([], []), [], [], static), Clock(), None)
        known = (facts.session_timeout_source, facts.session_timeout_ms, facts.request_threads)
        assert known == ("static", 60_000, {1: 8})
        for key, default in ((MIN_ISR, "1"), (UNCLEAN_LEADER_ELECTION, "false")):
            assert config_timeline(key, [], [(0, 1)], static).cluster.values[-1] == (default, "assumed_default")
    assert of_all_captures([before, {MIN_ISR: "2"}]) == before
