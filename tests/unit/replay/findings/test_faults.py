"""Findings about the log and the evidence: what they say, and that they point at bytes."""

import pyarrow as pa

from replay.arrow.schemas import FINDINGS
from replay.cluster.log import Problem
from replay.findings.faults import described, divergence, fault, file_faults
from replay.findings.kinds import FAULTS, FILE_FAULTS
from tests.support.paths import capture
from tests.support.pure import cluster_state, decode


def test_a_divergence_says_where_who_and_which_side_was_committed() -> None:
    shape = cluster_state(decode(capture("diverge"))).shape
    (branch,) = shape.branches
    judged = [{**b, "commit_state": "committed"} for b in shape.batches]
    row = divergence("c", branch, judged)
    assert row["explanation"] == (
        "Logs diverge at epoch 1, offset 46: node 3001 wrote offsets 46 to 51 in epoch 1; a later epoch replaced them. "
        "They were never committed and are not applied. Nodes 3000, 3002 went on from offset 46 in epoch 3: committed."
    )
    assert (row["kind"], row["verdict"], row["start_offset"], row["end_offset"]) == (
        "controller_divergence",
        "proven",
        46,
        52,
    )
    roles = [e["role"] for e in row["evidence"]]
    assert roles == ["truncated_branch"] * (len(roles) - 1) + ["replaced_by"]
    assert {e["path"].split("/")[1] for e in row["evidence"] if e["role"] == "truncated_branch"} == {"3001"}
    assert all(e["position"] >= 0 and len(e["sha256"]) == 64 for e in row["evidence"])
    assert pa.Table.from_pylist([row], schema=FINDINGS).num_rows == 1


def test_a_side_that_is_not_known_to_be_committed_is_not_called_so() -> None:
    shape = cluster_state(decode(capture("diverge"))).shape
    judged = [{**b, "commit_state": "unknown"} for b in shape.batches]
    text = divergence("c", shape.branches[0], judged)["explanation"]
    # An epoch that was not captured may have taken back the other side (Raft, figure 8).
    assert "a later epoch replaced them. They are not applied." in text
    assert text.endswith("in epoch 3: not known to be committed.")


def test_the_same_fault_has_the_same_id_and_another_place_another() -> None:
    problem = Problem("offset_gap", 7, "offsets 7 to 9 are in no captured file")
    assert fault("c", problem)["finding_id"] == fault("c", problem)["finding_id"]
    assert fault("c", problem)["finding_id"] != fault("d", problem)["finding_id"]
    assert fault("c", problem, "a")["finding_id"] != fault("c", problem, "b")["finding_id"]


def test_a_quarantined_stretch_becomes_a_finding_that_points_at_it() -> None:
    place = {"capture": "c", "path": "x.log", "sha256": "ab", "position": 61}
    (row,) = file_faults("c", [{**place, "reason": "offset_flip", "offset": 9, "message": "x.log: byte 61: no"}])
    assert (row["kind"], row["start_offset"], row["explanation"]) == ("offset_flip", 9, "x.log: byte 61: no")
    assert {k: row["evidence"][0][k] for k in place} == place
    assert set(FILE_FAULTS) <= set(FAULTS)


def test_the_same_stretch_of_equal_files_is_one_finding() -> None:
    of_all = {"capture": "c", "sha256": "ab", "position": 61, "reason": "offset_flip", "offset": 9, "message": "no"}
    paths = ["1/x.log", "2/x.log", "copy/x.log"]
    (row,) = file_faults("c", [{**of_all, "path": path} for path in paths])
    assert [each["path"] for each in row["evidence"]] == paths


def test_a_printed_state_is_shown_beside_the_replayed_ones() -> None:
    place = {"capture": "c", "path": "topics.txt", "sha256": "ab", "position": 5}
    state = {"leader": 2, "replicas": [1, 2], "isr": [2], "elr": [], "last_known_elr": [], "offset": 80, **place}
    printed = {"source": "topics_describe", "topic": "t", "partition": 3, "captured_at_ms": 99, **place}
    printed |= {"leader": -1, "replicas": [1, 2], "isr": [], "elr": None, "last_known_elr": None}
    row = described("c", printed, [state], {"topic": "t", "topic_id": "T" * 22})
    assert row["explanation"] == (
        "topics_describe printed leader -1 replicas [1,2] isr [] for t-3; replayed: after offset 80: "
        "leader 2 replicas [1,2] isr [2] elr [] last_known_elr []."
    )
    assert [e["role"] for e in row["evidence"]] == ["printed", "replayed"]
    assert (row["topic"], row["partition"], row["start_offset"]) == ("t", 3, 80)
