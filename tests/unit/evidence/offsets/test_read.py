"""Offsets of replicas: one row an entry, at its own bytes, and nothing that the source does not say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from evidence.errors import Damage
from tests.unit.evidence.offsets import support
from tests.unit.evidence.offsets.support import BROKER, NOW


def read(root: Path, files: dict[str, bytes]) -> tuple[list[dict[str, object]], dict[str, Sequence[Damage]]]:
    """The rows, and the damage of the files that have some."""
    found, _ = support.read(root, files)
    return found.log_end_offsets.to_pylist(), {path: a.damage for path, a in found.accounts.items() if a.damage}


MANIFEST = """captured_at = 1795221569450
[[nodes]]
id = 4
path = "node-4"
clock_offset_ms = 300
clock_offset_error_ms = 20
written = {{ "replication-offset-checkpoint" = {written}, "log-start-offset-checkpoint" = {written} }}
{more}"""
OF_NFS = '[[nodes.disks]]\ndirectory = "logdir0"\nfile_system = "nfs4"\n'


@pytest.mark.parametrize(
    ("name", "written", "more", "times"),
    [
        ("replication-offset", 1795221500000, "", [(1795221499680, 1040)]),
        ("replication-offset", 1795221500000, "clock_error_ms = 7", [(1795221499673, 1054)]),
        ("replication-offset", 1795221563000, "", [(1795221562680, 1040)]),
        # A broker that runs; a file server's clock; a file that says nothing about the time before.
        ("replication-offset", 1795221565000, "", [(1795221569450, 5000)]),
        ("replication-offset", 1795221500000, OF_NFS, [(1795221569450, 5000)]),
        ("log-start-offset", 1795221500000, "", [(1795221569450, 5000)]),
    ],
)
def test_high_watermarks_of_a_broker_that_was_down_are_of_when_they_were_written(
    name: str, written: int, more: str, times: list[tuple[int, int]], tmp_path: Path
) -> None:
    """Or that waited for a disk: one that runs does not show that it has written them since it knew of a leader epoch
    (ReplicaManager.checkpointHighWatermarks, 4.3.1)."""
    manifest = MANIFEST.format(written=written, more=more).encode()
    rows, _ = read(tmp_path, {"capture.toml": manifest, f"node-4/{name}-checkpoint": b"0\n1\norders 0 12\n"})
    assert [(r["captured_at_ms"], r["uncertainty_ms"]) for r in rows] == times
    assert {(r["high_watermark"] or r["log_start_offset"], r["position"]) for r in rows} == {(12, 4)}


@pytest.mark.parametrize(
    "data",
    [
        *(b"0\n3\n0 0\n4 80\n", b"0\n2\n0 0\n4 8"),
        *(b"0\n3\n0 0\n%s\n4 80\n" % bad for bad in (b"-1 5", b"2 -5", b"2147483648 5", b"1 2 3", b"1", b"2 x0")),
        # They do not rise.
        *(b"0\n2\n" + lines for lines in (b"3 50\n2 80\n", b"2 80\n3 50\n", b"2 50\n2 80\n", b"2 50\n3 50\n")),
    ],
)
def test_epochs_of_which_some_are_missing_are_of_no_log(data: bytes, tmp_path: Path) -> None:
    """The rest looks whole: a line in the middle may have been lost."""
    rows, damage = read(tmp_path, {f"{BROKER}/orders-0/leader-epoch-checkpoint": data})
    (found,) = damage[f"{BROKER}/orders-0/leader-epoch-checkpoint"]
    assert (rows, found.reason, found.length_bytes) == ([], "bad_checkpoint", len(data))


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("replication-offset-checkpoint", "high_watermark"),
        ("recovery-point-offset-checkpoint", "recovery_point_offset"),
        ("log-start-offset-checkpoint", "log_start_offset"),
    ],
)
def test_an_offset_checkpoint_gives_its_own_column_and_no_other(name: str, column: str, tmp_path: Path) -> None:
    data = b"0\n3\norders 0 12\n__cluster_metadata 0 99\norders 11 13\n"
    rows, damage = read(tmp_path, {f"{BROKER}/{name}": data})
    assert damage == {}
    expected = [("orders", 0, 12), ("__cluster_metadata", 0, 99), ("orders", 11, 13)]
    assert [(r["topic"], r["partition"], r[column]) for r in rows] == expected
    values = {"log_end_offset", "high_watermark", "log_start_offset", "recovery_point_offset", "leader_epoch"}
    assert all(r[other] is None for r in rows for other in values - {column})
    assert {(r["broker_id"], r["captured_at_ms"], r["uncertainty_ms"]) for r in rows} == {(4, int(NOW), 5000)}
    assert [data[r["position"] :].splitlines()[0] for r in rows] == [
        b"orders 0 12",
        b"__cluster_metadata 0 99",
        b"orders 11 13",
    ]


@pytest.mark.parametrize("odd", ["", "kafka_log_Log_LogEndOffset 1\n"])
def test_every_row_of_a_scrape_has_the_start_of_its_process(odd: str, tmp_path: Path) -> None:
    text = """process_start_time_seconds 1.795221120887E9
kafka_cluster_Partition_InSyncReplicasCount{partition="0",topic="a",} 1.0
kafka_cluster_Partition_UnderMinIsr{partition="0",topic="a",} 1.0
kafka_log_Log_LogEndOffset{partition="0",topic="a",} 7.0
"""
    rows, damage = read(
        tmp_path, {f"{BROKER}/metrics.prom": (text + odd).encode(), f"{BROKER}/b.prom": text.split("\n", 1)[1].encode()}
    )
    assert bool(damage) == bool(odd)
    columns = ("in_sync_replicas_count", "under_min_isr", "log_end_offset")
    of_start = {start: [r for r in rows if r["process_start_ms"] == start] for start in (1795221120887, None)}
    for found in of_start.values():
        values = [tuple(r[c] for c in columns) for r in found]
        assert values == [(1, None, None), (None, True, None), (None, None, 7)]


@pytest.mark.parametrize("odd", [b"", b"\n"])
def test_a_recovery_point_has_the_session_that_stopped_cleanly_in_its_folder(odd: bytes, tmp_path: Path) -> None:
    points = {f"{BROKER}/{d}/recovery-point-offset-checkpoint": b"0\n1\na 0 7\n" + odd for d in ("d1", "d2", "d3")}
    rows, _ = read(
        tmp_path,
        {
            **points,
            f"{BROKER}/d1/replication-offset-checkpoint": b"0\n1\na 0 5\n",
            f"{BROKER}/d1/.kafka_cleanshutdown": b'{"version":0,"brokerEpoch":41}',
            f"{BROKER}/d3/.kafka_cleanshutdown": b"",
        },
    )
    found = {(r["path"].split("/")[-2], r["recovery_point_offset"]): r["broker_epoch"] for r in rows if r["topic"]}
    assert found == {("d1", 7): 41, ("d2", 7): None, ("d3", 7): None, ("d1", None): None}


def test_a_file_of_an_unknown_broker_gives_damage_and_no_rows(tmp_path: Path) -> None:
    data = b"0\n2\norders 0 12\nnot an entry\n"
    rows, damage = read(tmp_path, {"data/replication-offset-checkpoint": data})
    assert rows == []
    (item,) = damage["data/replication-offset-checkpoint"]
    assert (item.reason, item.position, item.length_bytes) == ("unknown_node", 0, len(data))
    assert "put its meta.properties next to the file" in item.message


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("replication-offset-checkpoint", b"orders 0 -1"),
        ("replication-offset-checkpoint", b"orders -1 5"),
        ("replication-offset-checkpoint", b"orders 2147483648 5"),
        ("replication-offset-checkpoint", b"two words 0 5"),
        ("replication-offset-checkpoint", b"0 5"),
        ("replication-offset-checkpoint", b"orders 0 9223372036854775808"),
    ],
)
def test_an_entry_that_cannot_be_is_damage_at_its_own_bytes(name: str, line: bytes, tmp_path: Path) -> None:
    data = b"0\n2\n" + line + b"\norders 1 4\n"
    rows, damage = read(tmp_path, {f"{BROKER}/{name}": data})
    assert len(rows) == 1
    (item,) = damage[f"{BROKER}/{name}"]
    assert item.reason == "bad_checkpoint"
    assert data[item.position : item.position + item.length_bytes] == line


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("offsets.txt", "orders:0:12\norders:1:7\n"),
        (f"{BROKER}/metrics.prom", 'kafka_log_Log_LogEndOffset{topic="orders",partition="3"} 12\n' * 3),
        (f"{BROKER}/replication-offset-checkpoint", "0\n1\norders 0 12\n"),
        (f"{BROKER}/quorum-state", '{"leaderId":1,"leaderEpoch":2,"data_version":1}'),
        (f"{BROKER}/server.properties", "node.id=4\n"),
        (f"{BROKER}/orders-0/partition.metadata", "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"),
    ],
)
def test_a_text_in_utf_16_is_quarantined_as_a_whole(name: str, text: str, tmp_path: Path) -> None:
    rows, damage = read(tmp_path, {name: text.encode("utf-16")})
    (item,) = damage[name]
    assert (rows, item.reason, item.position, item.length_bytes) == ([], "bad_text", 0, 2 * len(text) + 2)
    assert "convert it to UTF-8" in item.message


@pytest.mark.parametrize("node", [b"node.id=-1\n", b"node.id=99999999999\n", b"node.id=four\n", b"node.id=4"])
def test_a_node_id_that_cannot_be_or_may_lack_digits_is_damage(node: bytes, tmp_path: Path) -> None:
    """Its folder's name, which may be another node's, is what is left."""
    data = b"version=1\ncluster.id=x\n" + node
    _, damage = read(tmp_path, {f"{BROKER}/meta.properties": data})
    (item,) = damage[f"{BROKER}/meta.properties"]
    assert (item.reason, item.message, item.length_bytes) == ("bad_properties", "no node id", len(data))


@pytest.mark.parametrize("name", ["meta.properties", "server.properties", "orders-0/partition.metadata"])
@pytest.mark.parametrize("data", [b"", b"\xff" * 40, bytes(40), b"cut"])
def test_a_small_file_without_what_it_is_read_for_is_damage(name: str, data: bytes, tmp_path: Path) -> None:
    _, damage = read(tmp_path, {f"{BROKER}/{name}": data})
    (item,) = damage[f"{BROKER}/{name}"]
    assert (item.reason, item.position, item.length_bytes) == ("bad_properties", 0, len(data))


def test_a_topic_id_that_folders_of_two_topics_have_is_named(tmp_path: Path) -> None:
    data = b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    _, damage = read(tmp_path / "a", {f"{BROKER}/{f}/partition.metadata": data for f in ("orders-0", "orders-1")})
    assert damage == {}
    _, damage = read(tmp_path / "b", {f"{BROKER}/{f}/partition.metadata": data for f in ("orders-0", "other-0")})
    texts = [item.message for items in damage.values() for item in items]
    assert texts == ["folders of several topics have the topic id AAECAwQFBgcICQoLDA0ODw: orders, other"] * 2


def test_a_file_whose_count_does_not_hold_keeps_its_rows_and_a_note(tmp_path: Path) -> None:
    path = f"{BROKER}/replication-offset-checkpoint"
    data = b"0\n2\norders 0 12\n"
    found, _ = support.read(tmp_path, {path: data})
    assert found.log_end_offsets.num_rows == 1
    account = found.accounts[path]
    assert [d.reason for d in account.damage] == ["checkpoint_count"]
    assert (account.note, account.parsed_bytes) == ("1 entries, the file's head gives 2", len(data))


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize(
    ("name", "data", "position"),
    [
        ("get-offsets.txt", b"orders:0:12\r\npayments:1:5\r\n", 13),
        (f"{BROKER}/replication-offset-checkpoint", b"0\n2\norders 0 12\npayments 1 5\n", 16),
        ("q.txt", b"NodeId\tLogEndOffset\tLag\n1\t12\t0\n2\t5\t7\n", 31),
    ],
)
def test_a_byte_order_mark_is_no_part_of_the_first_line(
    mark: bytes, name: str, data: bytes, position: int, tmp_path: Path
) -> None:
    """PowerShell's `Out-File -Encoding utf8` writes one."""
    rows, damage = read(tmp_path, {name: mark + data})
    assert damage == {}
    assert [row["high_watermark"] or row["log_end_offset"] for row in rows] == [12, 5]
    assert rows[1]["position"] == len(mark) + position
