"""What nodes' files say of configs that rules rest on."""

from __future__ import annotations

import pytest

from replay.cluster.facts import REQUEST_THREADS, SESSION_TIMEOUT, Clock, cluster_facts
from replay.cluster.state import log_shape, resolve_cluster


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
    facts = cluster_facts("c", resolve_cluster(log_shape([], []), [], [], static), Clock(), None, static)
    assert (facts.session_timeout_source, facts.request_threads) == (source, threads)


def test_a_timeout_is_assumed_if_one_controllers_file_does_not_show_it() -> None:
    file = {"process.roles": "controller"}
    static = {1: {**file, SESSION_TIMEOUT: "${env:SESSION}"}, 2: {**file, SESSION_TIMEOUT: "6000"}}
    facts = cluster_facts("c", resolve_cluster(log_shape([], []), [], [], static), Clock(), None, static)
    assert (facts.session_timeout_source, facts.session_timeout_ms) == ("assumed_default", 9_000)
