"""Advice follows from recorded facts, names its rule, and keeps facts, assumptions and predictions apart."""

from __future__ import annotations

import re
from typing import Any

import pytest

from replay.findings.statements import statement
from replay.incident.advice import TITLES, AdviceInput, advise
from tests.support.paths import ROOT
from tests.support.report_rows import TOPIC_ID, exposure, finding, other_kind

UNCLEAN = "unclean.leader.election.enable"


def leaderless(
    finding_id: str = "l", waits: str = "clean_return", brokers: tuple[int, ...] = (3,), **values: Any
) -> dict[str, Any]:
    members = {"clean_return": "leaderless_elr", "last_known_return": "leaderless_last_known"}
    reason = [
        statement("leader_lost", [3], offset=110, leader_epoch=1),
        statement("exposed_at_log_end"),
        statement(members.get(waits, "leaderless_nobody"), list(brokers)),
        statement(waits, list(brokers)) if waits != "no_return" else statement(waits),
        values.pop("unclean", statement("unclean_off", text="static")),
    ]
    return exposure(finding_id, **({"reason": reason, "end_offset": None} | values))


def broker(broker_id: int, fenced: bool = True, epoch: int = 20, **values: Any) -> dict[str, Any]:
    given = {"incarnation_id": "i", "in_controlled_shutdown": False, "offset": 98, "broker_epoch": epoch}
    return {"broker_id": broker_id, "fenced": fenced, **given, **values}


def config(topic: str, name: str, value: str, source: str = "topic") -> dict[str, Any]:
    row = {"resource_type": "topic", "resource_name": topic, "name": name}
    return {**row, "effective_value": value, "source": source}


def pieces(**given: Any) -> dict[str, dict[str, Any]]:
    return {piece["code"]: piece for piece in advise(AdviceInput(**given))}


def anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rule_is_documented(rule: str) -> bool:
    text = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    return f"**{rule}. " in text or f"`{rule.split(' (')[0]}`" in text


def test_nothing_follows_from_nothing() -> None:
    assert advise(AdviceInput()) == []


def test_a_partition_waits_for_the_members_of_its_isr_or_elr() -> None:
    rows = [leaderless("a"), leaderless("b", partition=1), leaderless("c", brokers=(2, 4), partition=2)]
    found = [piece for piece in advise(AdviceInput(leaderless=rows)) if piece["code"] == "bring_back"]
    assert [(piece["brokers"], piece["partitions"], piece["finding_ids"]) for piece in found] == [
        ([3], ["ledger-0", "ledger-1"], ["a", "b"]),
        ([2, 4], ["ledger-2"], ["c"]),
    ]
    assert found[0]["advice"].startswith("Start broker 3: 2 partitions without a leader wait for it.")
    assert found[1]["advice"].startswith("Start broker 2 or 4: 1 partition without a leader waits for one of these.")
    assert found[0]["facts"][0] == "When the log ended, their ISR was empty and their ELR was: 3."


def test_the_election_not_to_run_and_what_it_would_lose() -> None:
    seen = {(TOPIC_ID, 0): {3: {"log_end_offset": 150, "high_watermark": 150}}}
    seen[TOPIC_ID, 0] |= {1: {"log_end_offset": 80, "high_watermark": 80}, 2: {"log_end_offset": None}}
    found = pieces(leaderless=[leaderless()], last_seen=seen)["no_unclean_election"]
    assert found["not_to_run"] == [
        'kafka-leader-election.sh --bootstrap-server "$BOOTSTRAP" --election-type UNCLEAN --topic ledger --partition 0'
    ]
    assert found["commands"] == []
    losses = [text for text in found["predictions"] if "would lose at least" in text]
    assert len(losses) == 1
    assert losses[0].startswith("Prediction for ledger-0: broker 1 would lose at least 70 acknowledged records, if ")


@pytest.mark.parametrize(
    "seen",
    [{}, {3: {"log_end_offset": 9, "high_watermark": None}}, {1: {"log_end_offset": 80, "high_watermark": 90}}],
)
def test_without_the_last_leaders_high_watermark_the_loss_is_not_known(seen: dict[int, Any]) -> None:
    found = pieces(leaderless=[leaderless()], last_seen={(TOPIC_ID, 0): seen})["no_unclean_election"]
    assert found["predictions"][-1] == "How much it would lose is not known."


def test_a_replica_that_was_seen_to_have_everything_is_said_to_lose_nothing_certain() -> None:
    seen = {3: {"log_end_offset": 9, "high_watermark": 9}, 1: {"log_end_offset": 9, "high_watermark": 9}}
    found = pieces(leaderless=[leaderless()], last_seen={(TOPIC_ID, 0): seen})["no_unclean_election"]
    assert found["predictions"][-1] == "How much it would lose is not known."


@pytest.mark.parametrize(
    ("said", "kind"),
    [(statement("unclean_on", text="topic"), "facts"), (statement("unclean_assumed", text="true"), "assumptions")],
)
def test_unclean_election_that_is_on_is_turned_off_first(said: dict[str, Any], kind: str) -> None:
    found = pieces(leaderless=[leaderless(unclean=said)])["no_unclean_election"]
    assert found["advice"].startswith(f"{UNCLEAN} is on: turn it off before any broker but 3 starts")
    assert found["commands"] == [
        'kafka-configs.sh --bootstrap-server "$BOOTSTRAP" --alter --entity-type topics --entity-name ledger '
        f"--add-config {UNCLEAN}=false"
    ]
    assert any(UNCLEAN in text for text in found[kind])
    other = {"facts": "assumptions", "assumptions": "facts"}[kind]
    assert not any(UNCLEAN in text for text in found[other])


def test_a_last_known_leader_is_elected_uncleanly() -> None:
    found = pieces(leaderless=[leaderless(waits="last_known_return")])["bring_back_last_known"]
    assert found["predictions"] == ["Prediction: broker 3 is elected uncleanly when it returns."]


def test_where_nobodys_return_helps_an_election_is_the_last_resort() -> None:
    found = pieces(leaderless=[leaderless(waits="no_return", brokers=(1, 2))])
    assert "no_unclean_election" not in found
    assert "--election-type UNCLEAN --topic ledger --partition 0" in found["last_resort"]["commands"][0]
    assert "Copy the logs of all their replicas" in found["last_resort"]["advice"]


def test_what_a_broker_holds_is_copied_before_it_starts() -> None:
    found = advise(AdviceInput(leaderless=[leaderless()], brokers={3: broker(3)}))
    assert found[0]["code"] == "copy_first"
    assert found[0]["advice"].startswith("Before broker 3 starts, copy from its disks the folders of these partitions")
    assert found[0]["facts"] == [
        "Broker 3 was fenced when the log ended, without a controlled shutdown (metadata offset 98)."
    ]


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (None, "copy_first"),
        (broker(3), "copy_first"),
        (broker(3, incarnation_id=None), "copy_first"),
        (broker(3, epoch=121), "look_for_old_copies"),
        (broker(3, fenced=False), "look_for_old_copies"),
    ],
)
def test_a_leader_that_came_back_has_truncated_its_log(row: dict[str, Any] | None, code: str) -> None:
    lost = finding(verdict="possible") | {"previous_leader": 3}
    found = pieces(lost=[lost], brokers={} if row is None else {3: row})
    assert list(found) == [code]
    assert found[code]["partitions"] == ["ledger-0"]


@pytest.mark.parametrize("leader", [None, -1])
def test_an_unknown_leader_is_not_named(leader: int | None) -> None:
    assert advise(AdviceInput(lost=[finding(verdict="possible") | {"previous_leader": leader}])) == []


def test_a_last_replica_is_protected() -> None:
    reason = [statement("last_replica", [4], offset=9), statement("min_isr_in_force", value=1, text="topic")]
    found = pieces(last_replica=[exposure("r", kind="last_replica_standing", reason=reason)])["protect_last_replica"]
    assert (found["brokers"], found["facts"]) == ([4], ["The effective min ISR was 1 (config layer: topic)."])
    assert found["advice"].startswith("Do not stop broker 4, replace its disk or move its replicas")


def test_unsafe_configs_in_force_are_changed_by_topic() -> None:
    rows = [
        config("a", "min.insync.replicas", "1"),
        config("b", "min.insync.replicas", "2"),
        config("c", UNCLEAN, "true", "assumed_default"),
        config("d", "min.insync.replicas", "1"),
    ]
    found = pieces(configs=rows)
    assert [command.split("--entity-name ")[1] for command in found["raise_min_isr"]["commands"]] == [
        "a --add-config min.insync.replicas=2",
        "d --add-config min.insync.replicas=2",
    ]
    assert found["raise_min_isr"]["facts"] == ["min.insync.replicas is 1 for a, d (config layer: topic)."]
    assert found["turn_off_unclean"]["facts"] == []
    assert found["turn_off_unclean"]["assumptions"] == [f"{UNCLEAN} is true for c (config layer: assumed_default)."]


@pytest.mark.parametrize(
    ("features", "commands"),
    [
        ({}, None),
        ({"metadata.version": 25, "eligible.leader.replicas.version": 1}, None),
        ({"metadata.version": 21}, 0),
        ({"metadata.version": 23, "eligible.leader.replicas.version": 0}, 1),
    ],
)
def test_elr_is_turned_on_where_it_is_known_to_be_off(features: dict[str, int], commands: int | None) -> None:
    found = pieces(features=features).get("turn_on_elr")
    assert (None if found is None else len(found["commands"])) == commands


def test_a_known_bug_at_work_asks_for_an_upgrade() -> None:
    def mismatch(ticket: str) -> dict[str, Any]:
        return other_kind("m", kind="rule_mismatch", reason=[statement("rule_known_bug", text=ticket)])

    found = advise(AdviceInput(known_bugs=[mismatch("KAFKA-19522"), mismatch("KAFKA-1")]))
    assert [piece["advice"] for piece in found] == [
        "Upgrade the controllers to 4.1.0 or later: their release has KAFKA-19522.",
        "Upgrade the controllers: their release has KAFKA-1.",
    ]


def test_no_name_that_kafka_refuses_is_in_a_command() -> None:
    topic = "a;rm -rf ~\x1b"
    rows = [leaderless(topic=topic, unclean=statement("unclean_on", text="topic"))]
    for piece in advise(AdviceInput(leaderless=rows, configs=[config(topic, UNCLEAN, "true")])):
        assert piece["commands"] == piece["not_to_run"] == []
        assert "\x1b" not in str(piece["partitions"]) + piece["advice"]


def test_the_limit_of_what_was_read_is_said() -> None:
    found = pieces(left_out={"leaderless": 70, "rule_mismatch": 0})["more_findings"]
    assert "from the first 5000 findings of each kind, and there are 70 more leaderless" in found["advice"]
    assert found["commands"] == ["kraft-forensics findings --kind leaderless --limit 5070"]
    assert advise(AdviceInput(left_out={"leaderless": 0})) == []


def test_every_piece_names_its_rule_and_mixes_no_natures() -> None:
    lost = finding() | {"previous_leader": 3}
    rows = [leaderless(), leaderless("n", "no_return", (), partition=1), leaderless("k", "last_known_return")]
    configs = [config("a", "min.insync.replicas", "1"), config("a", UNCLEAN, "true")]
    left_out = {"leaderless": 1}
    groups = lost | {"topic": "__consumer_offsets", "verdict": "possible"}
    given = AdviceInput(
        rows, lost=[lost, groups], configs=configs, features={"metadata.version": 25}, left_out=left_out
    )
    found = advise(given)
    assert len({piece["code"] for piece in found}) >= 10
    for piece in found:
        assert piece["when"] in TITLES
        assert piece["rule"]
        page, _, anchor = piece["see"].partition("#")
        assert anchor in anchors(page)
        assert all(rule_is_documented(rule) for rule in piece["rule"].split(", "))
        assert not any("Prediction" in text for text in piece["facts"] + piece["assumptions"])
        assert all(text.startswith(("Prediction", "How much it would lose")) for text in piece["predictions"])
    whens = [list(TITLES).index(piece["when"]) for piece in found]
    assert whens == sorted(whens)
