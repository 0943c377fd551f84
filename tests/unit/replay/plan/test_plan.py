"""A plan follows from recorded facts: each step has its rule, keeps natures apart, and is there only if needed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from jobs.incident.commands import commands_of, fill_in
from jobs.incident.plan import as_row
from replay.findings.statements import statement
from replay.plan.inputs import PlanInput
from replay.plan.plan import make_plan
from replay.plan.start_order import BY_LOG, ELR, ISR, LAST_KNOWN, NOBODY, OFF, ON, UNKNOWN, Waiting
from replay.plan.step import Phase, PlanStep
from tests.support.paths import ROOT
from tests.support.report_rows import TOPIC_ID, exposure, finding, other_kind, state

UNCLEAN = "unclean.leader.election.enable"


def waiting(by: str = ELR, members: tuple[int, ...] = (3,), unclean: str = ON, **values: Any) -> Waiting:
    layer = "assumed_default" if unclean == UNKNOWN else "topic"
    given = {"topic_id": TOPIC_ID, "topic": "ledger", "replicas": (1, 2, 3), "layer": layer}
    return Waiting(**{**given, "members": members, "by": by, "unclean": unclean, **values})


def broker(fenced: bool = True, epoch: int = 20, **values: Any) -> dict[str, Any]:
    given = {"incarnation_id": "i", "in_controlled_shutdown": False, "offset": 98, "broker_epoch": epoch}
    return {"fenced": fenced, **given, **values}


def brokers(*down: int) -> dict[int, dict[str, Any]]:
    return dict.fromkeys(down, broker())


def config(topic: str, name: str, value: str, source: str = "topic") -> dict[str, Any]:
    row = {"resource_type": "topic", "resource_name": topic, "name": name}
    return {**row, "effective_value": value, "source": source}


def window(leader: int | None = 3, **values: Any) -> dict[str, Any]:
    """A window that is not excluded, with what the plan needs of its election."""
    election = {"previous_leader": leader, "isr_before": [], "elr_before": [], "candidates": [1]}
    return {**finding(verdict="possible"), **election, **values}


def steps(**given: Any) -> dict[str, PlanStep]:
    return {step.code: step for step in make_plan(PlanInput(**given))}


def commands(**given: Any) -> dict[str, list[str]]:
    return {step["code"]: step["commands"] for step in as_row(make_plan(PlanInput(**given)))["steps"]}


def anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rule_is_documented(rule: str) -> bool:
    text = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    return f"**{rule}. " in text or f"`{rule}`" in text


def test_nothing_follows_from_nothing() -> None:
    assert make_plan(PlanInput()) == []
    assert as_row([]) == {"steps": [], "fill_in": {}}


def test_where_nothing_is_lost_nothing_is_copied() -> None:
    found = steps(waiting=[waiting(unclean=OFF)], brokers=brokers(1, 2, 3))
    assert list(found) == ["start", "no_unclean_election", "check_leaders"]
    assert found["start"].text == ("Start brokers in the order 3, 1, 2; wait for the leaders after each.")
    assert found["no_unclean_election"].facts == ("When the log ended, the ISR was empty and the ELR was 3: ledger-0.",)


def test_unclean_election_is_turned_off_by_a_controller_while_no_broker_runs() -> None:
    given = {"waiting": [waiting(), waiting(topic="mail", layer="static", topic_id="m")]}
    tool, entity = "kafka-configs.sh --bootstrap-{} --alter", f"--add-config {UNCLEAN}=false"
    for active, server in ((False, 'controller "$CONTROLLERS"'), (True, 'server "$BOOTSTRAP"')):
        known = {**brokers(1, 2, 3), 9: broker(fenced=not active)}
        found = commands(**given, brokers=known)["turn_off_unclean"]
        assert found == [
            f"{tool.format(server)} --entity-type brokers --entity-default {entity}",
            f"{tool.format(server)} --entity-type topics --entity-name ledger {entity}",
        ]
    row = as_row(make_plan(PlanInput(**given, brokers=brokers(1, 2, 3))))
    assert list(row["fill_in"]) == ["$BOOTSTRAP", "$CONTROLLERS"]


def test_an_assumed_config_is_no_fact() -> None:
    found = steps(waiting=[waiting(unclean=UNKNOWN)], brokers=brokers(1, 2, 3))["turn_off_unclean"]
    assert found.facts == ()
    assert found.assumptions == (f"No config in the evidence sets {UNCLEAN} for ledger: it may be on.",)
    assert found.predictions[0].startswith("If it is on, ")


def test_what_an_outsider_would_lose() -> None:
    seen = {3: {"log_end_offset": 150, "high_watermark": 150}, 1: {"log_end_offset": 80, "high_watermark": 80}}
    seen[2] = {"log_end_offset": None, "high_watermark": None}
    found = steps(waiting=[waiting()], brokers=brokers(1, 2, 3), last_seen={(TOPIC_ID, 0): seen})["turn_off_unclean"]
    assert found.predictions[1:] == (
        "ledger-0: broker 1 would lose at least 70 acknowledged records, if its log still ends at 80, where it was "
        "last seen.",
    )


@pytest.mark.parametrize(
    "seen",
    [
        {},
        {3: {"log_end_offset": 9, "high_watermark": None}, 1: {"log_end_offset": 8, "high_watermark": 8}},
        {3: {"log_end_offset": 9, "high_watermark": 9}, 1: {"log_end_offset": 9, "high_watermark": 9}},
    ],
)
def test_a_loss_that_is_not_certain_is_not_known(seen: dict[int, Any]) -> None:
    found = steps(waiting=[waiting()], brokers=brokers(1, 2, 3), last_seen={(TOPIC_ID, 0): seen})["turn_off_unclean"]
    assert found.predictions[1:] == ("How many records that election would lose is not known.",)


def test_the_last_known_leader_starts_after_the_copies_are_compared() -> None:
    found = steps(waiting=[waiting(LAST_KNOWN, unclean=OFF)], brokers=brokers(1, 2, 3))
    texts = [text for action in found["copy"].actions for text in commands_of(action)]
    assert texts[0] == ('kraft-forensics collect --light --node 1=ssh:"$HOST_1" --output old-1 --replica-logs ledger-0')
    assert set(fill_in(texts)) == {"$HOST_1", "$HOST_2", "$HOST_3"}
    assert found["copy"].brokers == (1, 2, 3)
    assert found["copy"].text.endswith("Compare the copies of ledger-0 before broker 3 starts.")
    assert "is elected uncleanly as it comes back" in found["start"].predictions[0]


@pytest.mark.parametrize(
    ("by", "level", "expected"),
    [(ISR, 0, "Without ELR"), (ISR, None, "Without ELR"), (ISR, 1, "A member of"), (ELR, 1, "A member of")],
)
def test_without_elr_a_member_leads_also_after_an_unclean_stop(by: str, level: int | None, expected: str) -> None:
    features = {} if level is None else {"eligible.leader.replicas.version": level}
    found = steps(waiting=[waiting(by, unclean=OFF)], brokers=brokers(1, 2, 3), features=features)["start"]
    assert found.predictions[0].startswith(expected)


@pytest.mark.parametrize("by", [ISR, ELR, LAST_KNOWN])
def test_a_member_whose_disk_was_replaced_is_not_started(by: str) -> None:
    """On a real 4.3.1 it led with an empty log from its first or its second start on."""
    found = steps(waiting=[waiting(by, unclean=OFF)], brokers=brokers(1, 2, 3))["start"]
    assert found.assumptions == ("The disk of broker 3 is as the process left it: not replaced, not of a backup.",)
    assert "Do not start it; compare the logs of the others." in found.predictions[-1]
    several = steps(waiting=[waiting(by, (2, 3), OFF)], brokers=brokers(1, 2, 3))["start"]
    assert several.assumptions == (
        "The disks of brokers 2 and 3 are as the process left them: not replaced, not of a backup.",
    )


def test_how_much_space_a_copy_takes() -> None:
    read = {"source": "listing", "captured_at_ms": 1_795_000_000_000}
    sizes = {("ledger", 0): {1: {**read, "size_bytes": 1_288_490_189}, 3: {**read, "size_bytes": 900}}}
    found = steps(waiting=[waiting(LAST_KNOWN, unclean=OFF)], brokers=brokers(1, 2, 3), sizes=sizes)["copy"]
    assert [fact for fact in found.facts if "takes" in fact] == [
        "A copy takes about 1.2 GiB on node 1 (listing of 2026-11-18 11:06:40 UTC).",
        "A copy takes about 900 B on node 3 (listing of 2026-11-18 11:06:40 UTC).",
    ]
    two = waiting(LAST_KNOWN, unclean=OFF, topic="mail", topic_id="m")
    rows = [waiting(LAST_KNOWN, unclean=OFF), two]
    facts = steps(waiting=rows, brokers=brokers(1, 2, 3), sizes=sizes)["copy"].facts
    assert "A copy takes about 1.2 GiB on node 1 for 1 of 2 partitions (listing of 2026-11-18 11:06:40 UTC)." in facts


def test_remote_segments_are_copied_too() -> None:
    """A new leader deletes those whose leader epochs are all before the first of its own log
    (RemoteLogManager.cleanupExpiredRemoteLogSegments, 3.9.1 to 4.3.1)."""
    for value, told in (("true", True), ("false", False)):
        given = [
            {**config(topic, "remote.storage.enable", on), "effective_value": None, "value": on}
            for topic, on in (("ledger", value), ("mail", "true"))
        ]
        found = steps(waiting=[waiting(LAST_KNOWN, unclean=OFF)], brokers=brokers(1, 2, 3), configs=given)["copy"]
        assert any("With tiered storage (ledger) a new leader" in text for text in found.predictions) is told


def test_where_nobodys_return_helps_an_election_is_the_last_resort() -> None:
    rows = [waiting(NOBODY, (), OFF), waiting(members=(1,), topic="mail", topic_id="m", replicas=(1, 2))]
    found = steps(waiting=rows, brokers=brokers(1, 2, 3))
    assert (found["start"].brokers, found["elect"].brokers) == ((1,), (2, 3))
    assert found["copy"].places == ("ledger-0",)
    (command,) = commands(waiting=rows, brokers=brokers(1, 2, 3))["elect"]
    assert command.endswith("--election-type UNCLEAN --topic ledger --partition 0")


@pytest.mark.parametrize(
    ("row", "active", "code"),
    [
        (None, None, "copy"),
        (broker(), (20, 22), "copy"),
        (broker(incarnation_id=None), None, "copy"),
        (broker(epoch=121), (121, 125), "find_old_copies"),
        (broker(fenced=False), (20, 122), "find_old_copies"),
        (broker(incarnation_id=None), (121, 125), "find_old_copies"),
    ],
)
def test_a_leader_that_was_active_again_has_truncated_its_log(
    row: dict[str, Any] | None, active: tuple[int, int] | None, code: str
) -> None:
    known = {"brokers": {} if row is None else {3: row}, "active": {} if active is None else {3: active}}
    found = steps(lost=[window()], **known)
    assert list(found) == [code]
    assert (found[code].brokers, found[code].places) == ((3,), ("ledger-0",))


def test_a_leader_that_registered_again_and_was_never_active_may_have_truncated_nothing_yet() -> None:
    found = steps(lost=[window()], brokers={3: broker(epoch=121)}, active={3: (20, 22)})
    assert [found[code].brokers for code in ("copy", "find_old_copies")] == [(3,), (3,)]
    assert found["find_old_copies"].predictions[0] == (
        "Broker 3 registered again and was not active since: if it has not loaded its logs yet, nothing was truncated. "
        "Stop it and copy its disk."
    )


def test_a_leader_whose_directory_failed_keeps_what_was_lost_while_its_broker_runs() -> None:
    lost = window(candidates=[1, 3])
    (found,) = steps(lost=[lost], brokers={3: broker(fenced=False)}, active={3: (20, 122)}).values()
    assert (found.code, found.brokers) == ("copy", (3,))
    assert found.text.startswith("Before broker 3 starts, copy ")
    assert found.assumptions == (
        "ledger-0: broker 3 ran when another one was elected, so that its directory may have failed: its log is then "
        "as it was.",
    )
    assert "find_old_copies" in steps(lost=[lost], brokers={3: broker(epoch=121)}, active={3: (121, 130)})


def test_every_disk_that_may_have_what_was_lost_is_copied_before_its_broker_starts() -> None:
    known = {1: broker(fenced=False), 2: broker(), 3: broker(fenced=False, epoch=121), 4: broker(), 5: broker()}
    alone = state(120, 1, [1], replicas=[3, 1, 2, 4, 5])
    lost = window(isr_before=[3, 2], candidates=[1, 5])
    found = steps(lost=[lost], alone=[alone], alone_count={1: 1}, brokers=known, active={1: (20, 22), 3: (121, 125)})
    assert found["find_old_copies"].brokers == (3,)
    assert found["copy"].brokers == (2, 4)  # broker 5 ran when broker 1 was elected: it has truncated
    assert found["start"].brokers == (2, 4, 5)
    assert found["copy"].text.startswith("Before brokers 2 or 4 start, copy ")


@pytest.mark.parametrize("by", [LAST_KNOWN, BY_LOG, NOBODY])
def test_replicas_that_run_are_copied_before_somebody_is_elected(by: str) -> None:
    rows = [waiting(by, () if by == NOBODY else (1,), OFF)]
    found = steps(waiting=rows, brokers={1: broker(), 2: broker(fenced=False), 3: broker(fenced=False)})["copy"]
    assert found.brokers == (1, 2, 3)
    assert found.text.startswith(
        "Before broker 1 starts, copy the partitions' folders and the checkpoint files from the disks, also of brokers "
        "2 and 3, which run."
    )
    assert "A replica that runs truncates once there is a leader; without one nobody writes to its log." in (
        found.predictions
    )
    all_run = steps(waiting=rows, brokers=dict.fromkeys((1, 2, 3), broker(fenced=False)))["copy"]
    assert all_run.text.startswith("Before anybody is elected, copy ")


@pytest.mark.parametrize("leader", [None, -1])
def test_an_unknown_leader_is_not_named(leader: int | None) -> None:
    assert steps(lost=[window(leader)]) == {}


def test_a_fenced_broker_is_not_said_to_have_stopped_in_some_way() -> None:
    found = steps(waiting=[waiting()], brokers={3: broker(), 1: broker(in_controlled_shutdown=True)})["start"]
    assert "Broker 3 was fenced when the log ended (metadata offset 98)." in found.facts
    asked = "after it had asked for a controlled shutdown"
    assert f"Broker 1 was fenced when the log ended, {asked} (metadata offset 98)." in found.facts
    assert "Broker 2 was not registered when the log ended." in found.facts


def test_the_disk_of_a_last_replica_is_kept() -> None:
    alone = state(110, 3, [3], replicas=[3, 1], min_isr=1)
    found = steps(alone=[alone], alone_count={3: 1}, brokers={3: broker(fenced=False), 1: broker()})
    assert list(found) == ["start", "keep_disks", "check_leaders"]
    assert found["start"].brokers == (1,)
    # No min ISR: the state has the one of its begin, and it does not matter here.
    assert found["keep_disks"].facts == ("Broker 3 alone in the ISR and ELR: 1 partition.",)


def test_who_is_alone_in_the_isr_must_run_before_others_start() -> None:
    """Its death is not in the log if a majority of the controllers died with it. With unclean election on, a replica
    that starts would be elected once its session is over."""
    alone = state(110, 3, [3], replicas=[3, 1], min_isr=1)
    found = steps(alone=[alone], alone_count={3: 1}, brokers={3: broker(fenced=False), 1: broker()})["start"]
    assert found.text == "Once broker 3 runs, start broker 1: 1 partition had one copy left in the ISR or ELR."


def test_a_config_needs_a_majority_of_the_controllers() -> None:
    """Brokers 2 and 3 stopped after another, and with them two of three controllers: no broker that runs, and no
    controller, answers a change of a config (QuorumController.appendWriteEvent: only the active controller does)."""
    known = {**brokers(2, 3), 1: broker(fenced=False)}
    given = {"waiting": [waiting()], "brokers": known, "voters": frozenset({1, 2, 3})}
    found = steps(**given)
    assert list(found)[:2] == ["keep_controllers", "turn_off_unclean"]
    assert found["keep_controllers"].text == (
        "Let a majority of the controllers 1, 2, 3 run: where the broker must be down, as a controller alone "
        "(process.roles=controller)."
    )
    assert "--bootstrap-controller" in commands(**given)["turn_off_unclean"][0]
    assert found["start"].predictions[-1] == (
        "Nobody is elected before a majority of the controllers 1, 2, 3 runs: do not wait until then."
    )
    for voters in ({2, 8, 9}, {7, 8, 9}, set()):
        assert "keep_controllers" not in steps(**{**given, "voters": frozenset(voters)})
    off = steps(**{**given, "waiting": [waiting(unclean=OFF)]})
    assert "keep_controllers" not in off
    assert off["start"].predictions == found["start"].predictions


@pytest.mark.parametrize(("by", "members"), [(BY_LOG, (2,)), (NOBODY, ())])
def test_an_election_by_hand_needs_a_majority_of_the_controllers(by: str, members: tuple[int, ...]) -> None:
    known = dict.fromkeys((1, 2, 3), broker(fenced=False))
    given = {"waiting": [waiting(by, members, OFF)], "brokers": known}
    for voters, needed in (({1, 2, 3}, True), ({1, 3, 9}, True), ({1, 8, 9}, False), (set(), False)):
        assert ("keep_controllers" in steps(**given, voters=frozenset(voters))) is needed


def test_an_election_by_hand_says_what_must_stop_for_it() -> None:
    known = dict.fromkeys((1, 2, 3), broker(fenced=False))
    found = steps(waiting=[waiting(BY_LOG, (2,), OFF)], brokers=known)["start"]
    assert found.text == "Elect the leader of 1 partition by hand if it gets none."
    assert found.predictions[-1] == (
        "What such stops do to other partitions: kraft-forensics ahead --stop-all-in-order 1,3."
    )


def test_a_member_that_runs_and_does_not_lead_stops_before_any_start() -> None:
    """Its directory was replaced: the next unfenced broker, or check for preferred leaders, makes it leader with an
    empty log (ReplicationControlManager.handleBrokerUnfenced, maybeBalancePartitionLeaders, 3.9.1 to 4.3.1)."""
    known = {**brokers(1, 2), 3: broker(fenced=False)}
    rows = [waiting(unclean=OFF, passed_over=(3,)), waiting(topic="mail", topic_id="m", members=(2,), unclean=OFF)]
    found = steps(waiting=rows, brokers=known)
    assert list(found)[:3] == ["stop_replaced", "copy", "start"]
    assert found["stop_replaced"].text == (
        "Stop broker 3 before any start: 1 partition got no leader while a member ran, so that its directory was "
        "replaced."
    )
    assert found["stop_replaced"].facts == (
        "Broker 3 was active, with its directory online, and did not lead: ledger-0.",
    )
    assert found["copy"].brokers == (1, 2, 3)


def test_configs_that_lose_records_are_changed_once_all_are_back() -> None:
    rows = [
        config("a", "min.insync.replicas", "1"),
        config("b", "min.insync.replicas", "2"),
        config("c", UNCLEAN, "true", "assumed_default"),
        config("ledger", UNCLEAN, "true"),
    ]
    found = steps(configs=rows, waiting=[waiting()], brokers=brokers(1, 2, 3))["prevent_next"]
    assert found.text == f"Once all are in sync: set min.insync.replicas=2 for a; set {UNCLEAN}=false for c."
    assert found.facts == ("min.insync.replicas is 1 for a (config layer: topic).",)
    assert found.assumptions == (f"{UNCLEAN} is true for c (config layer: assumed_default).",)


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ({}, None),
        ({"metadata.version": 25, "eligible.leader.replicas.version": 1}, None),
        ({"metadata.version": 21}, 0),
        ({"metadata.version": 23, "eligible.leader.replicas.version": 0}, 1),
    ],
)
def test_elr_is_turned_on_where_it_is_known_to_be_off(features: dict[str, int], expected: int | None) -> None:
    found = steps(features=features).get("prevent_next")
    assert (None if found is None else len(found.actions)) == expected


def test_a_known_bug_at_work_asks_for_an_upgrade() -> None:
    rows = [other_kind("m", kind="rule_mismatch", ticket=ticket) for ticket in ("KAFKA-19522", "KAFKA-1")]
    assert steps(known_bugs=rows)["prevent_next"].text == (
        "Once all are in sync: upgrade the controllers to 4.1.0 or later (KAFKA-19522); upgrade the "
        "controllers (KAFKA-1)."
    )


def test_no_name_that_kafka_refuses_is_in_a_command() -> None:
    topic = "a;rm -rf ~\x1b"
    rows = [waiting(topic=topic), waiting(NOBODY, (), topic=topic)]
    lost = window(topic=topic, verdict="proven")
    given = {"waiting": rows, "configs": [config(topic, UNCLEAN, "true")], "lost": [lost], "brokers": brokers(1, 2, 3)}
    for step in as_row(make_plan(PlanInput(**given, current={topic: TOPIC_ID})))["steps"]:
        assert "rm -rf" not in "".join(step["commands"])
        assert "\x1b" not in "".join((*step["places"], *step["facts"], step["text"]))


def test_every_step_names_its_rule_mixes_no_natures_and_forbids_no_runnable_text() -> None:
    lost = window(verdict="proven")
    back = window(9, verdict="proven")
    groups = lost | {"topic": "__consumer_offsets", "verdict": "possible"}
    rows = [waiting(), waiting(NOBODY, (), topic="n", replicas=(4, 5)), waiting(LAST_KNOWN, topic="k")]
    longest = exposure("x", kind="last_replica_standing", reason=[statement("last_replica", [4], offset=9)])
    given = PlanInput(
        waiting=rows,
        alone=[state(110, 3, [3], replicas=[3, 1])],
        alone_count={3: 1},
        lost=[lost, back, groups],
        longest=[longest],
        configs=[config("a", "min.insync.replicas", "1")],
        features={"metadata.version": 25},
        brokers={**brokers(1, 2, 3, 4, 5), 9: broker(epoch=121)},
        active={9: (121, 130)},
    )
    found = make_plan(given)
    assert len(found) == len({step.code for step in found}) == 10
    for step in found:
        assert step.text.count("\n") == 0
        page, _, anchor = step.see.partition("#")
        assert anchor in anchors(page)
        assert all(rule_is_documented(rule) for rule in step.rule.split(", ")), step.rule
        assert not any("Prediction" in text for text in (*step.facts, *step.assumptions, *step.predictions))
        assert step.phase != "do_not" or step.actions == ()
        assert ".sh" not in step.text
    order = [list(Phase).index(step.phase) for step in found]
    assert order == sorted(order)
