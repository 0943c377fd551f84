"""`salvage --bootstrap`: copies of an old leader's log compared with the log of a broker that runs.

The topics' logs begin on a real broker. It is stopped and copied, and each copy gets a tail that the broker never had,
as an old leader's disk has. Then the broker starts again, in a new leader epoch, and goes on.
"""

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from typer.testing import CliRunner

from drill.network import free_ports
from drill.nodes import Node, combined_nodes, wait_for
from evidence.offsets.replica_copy import find_copies
from jobs.cli.commands import app
from jobs.salvage.live import LiveCluster, SalvageError
from jobs.salvage.produce import produce as send_again
from jobs.salvage.stage import salvage
from tests.kafka.conftest import SERVER, start, stop
from tests.support.data_logs import TIME_MS, Written

# `cleaned` and `emptied` become compacted once the copies are made: of `emptied` no record is left that both have.
TOPICS = ("quiet", "busy", "open", "ahead", "cut", "cleaned", "emptied", "empty", "same")
# A new segment begins with a record of this key: it is later than all before it, ends of transactions among them.
ROLLS = b"rolls"
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
CONFIGS = {
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    "log.cleaner.backoff.ms": 200,
    "log.retention.ms": -1,
}
TAIL = [(b"a", b"again"), (b"b", b"old"), (b"c", b"old"), (b"d", b"old"), (None, b"last")]


@dataclass(frozen=True)
class Parted:
    """old: copies with tails of their own; current: copies of the log that won; servers: of the broker that runs."""

    old: Path
    current: Path
    servers: str


def produce(servers: str, topic: str, *records: tuple[bytes | None, bytes], **more: Any) -> Producer:
    """more: properties. A transactional id says what becomes of the transaction."""
    producer = Producer(
        {"bootstrap.servers": servers, "log_level": 0, **{name.replace("_", "."): more[name] for name in more}}
    )
    if how := more.get("transactional_id"):
        producer.init_transactions(60)
        producer.begin_transaction()
    for number, (key, value) in enumerate(records):
        time_ms = TIME_MS + TAIL.index((key, value)) if (key, value) in TAIL else TIME_MS + number
        time_ms = int(time.time() * 1000) + 60_000 if key == ROLLS else time_ms
        producer.produce(topic, value, key, 0, timestamp=time_ms, headers=[("h", None)])
    assert producer.flush(60) == 0
    if how == "aborts":
        producer.abort_transaction(60)
    elif how == "commits":
        producer.commit_transaction(60)
    return producer


def tail(folder: Path, topic: str) -> None:
    """What only the old leader has: TAIL, in the leader epoch and at the offset at which the copy ends; of `ahead` in a
    leader epoch that no leader of the running cluster has reached."""
    (copy,) = (copy for copy in find_copies(folder) if copy.topic == topic)
    batches = [batch for _, _, batch in copy.batches()]
    end, epoch = (batches[-1].last_offset + 1, batches[-1].epoch) if batches else (0, 0)
    with copy.segments[-1].open("ab") as log:
        log.write(Written(end, 50 if topic == "ahead" else epoch, TAIL, headers=[("h", None)]).bytes)


@pytest.fixture(scope="module")
def parted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parted]:
    folder = tmp_path_factory.mktemp("live")
    (node,), servers = combined_nodes(folder, SERVER, [1], CONFIGS)
    try:
        start(node)
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        for made in admin.create_topics([NewTopic(topic, 1, 1) for topic in TOPICS]).values():
            made.result(60)
        for topic in set(TOPICS) - {"empty"}:
            for number in range(3):
                key = b"n" if topic in ("cleaned", "emptied") else None
                produce(servers, topic, (topic.encode(), bytes([number])), (key, b"x"))
            produce(servers, topic, (b"t", b"1"), transactional_id="commits")
        stop(node, by=SIGTERM)
        copied(node, folder / "old")
        for topic in TOPICS[:-1]:
            tail(folder / "old", topic)
        start(node)
        wait_for("all topics have leaders", lambda: _led(admin))
        for topic in ("busy", "open", "cut", "same"):
            produce(servers, topic, (b"c", b"new"), transactional_id="aborts")
            if topic == "open":
                longest = {"transaction_timeout_ms": 900_000}
                producer = produce(servers, topic, (b"z", b"z"), transactional_id="stays-open", **longest)
            produce(servers, topic, (b"b", b"new"), (b"a", b"again"), compression_type="zstd")
            produce(servers, topic, (b"d", b"new"), transactional_id="commits")
        for topic in ("cleaned", "emptied"):
            clean(admin, servers, topic, folder / "old")
        admin.delete_records([TopicPartition("cut", 0, 9)])[TopicPartition("cut", 0)].result(60)
        wait_for("no cleaner is at work", lambda: copied(node, folder / "current"))
        yield Parted(folder / "old", folder / "current", servers)
        producer.abort_transaction(60)
    finally:
        stop(node)


def clean(admin: AdminClient, servers: str, topic: str, old: Path) -> None:
    """Write the keys once more, and wait until the broker's cleaner has removed what they had before."""
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in COMPACTED.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(60)
    produce(servers, topic, (topic.encode(), b"new"), (b"n", b"new"), *([(b"t", b"new")] if topic == "emptied" else []))
    copies = [copy for copy in find_copies(old) if copy.topic == topic]

    def first() -> int:
        produce(servers, topic, (ROLLS, b""))
        (log,) = LiveCluster(servers).logs((copy.topic, copy.partition) for copy in copies).values()
        found = log.first(0)
        assert found is not None
        return found.record.offset

    wait_for(f"{topic} is cleaned", lambda: first() >= (8 if topic == "emptied" else 6))


def _led(admin: AdminClient) -> bool:
    found = admin.list_topics(timeout=10).topics
    return all(found[topic].partitions[0].leader == 1 for topic in TOPICS)


def copied(node: Node, to: Path) -> bool:
    """Copy the topics' logs as they are at one moment; not while the cleaner replaces segments."""
    node.freeze()
    is_quiet = not [file for suffix in ("cleaned", "swap") for file in node.home.glob(f"data/*/*.{suffix}")]
    for topic in TOPICS if is_quiet else ():
        shutil.copytree(node.home / "data" / f"{topic}-0", to / f"{topic}-0")
    node.thaw()
    return is_quiet


def both(parted: Parted, topic: str, tmp_path: Path) -> tuple[dict[str, Any], list[Any], dict[str, Any], list[Any]]:
    """(Summary and records by the live cluster, the same by copies)."""
    result: list[Any] = []
    for name, current in (("live", LiveCluster(parted.servers)), ("copies", parted.current)):
        out = tmp_path / name
        (summary,) = salvage(parted.old, current, [f"{topic}-0"], None, out, lambda line: None)["partitions"]
        lines = (out / f"{topic}-0" / "records.jsonl").read_text().splitlines()
        result += [summary, [json.loads(line) for line in lines]]
    return tuple(result)


@pytest.mark.parametrize("topic", ["quiet", "busy", "cleaned", "empty", "same"])
def test_the_running_cluster_and_its_copy_say_the_same(parted: Parted, topic: str, tmp_path: Path) -> None:
    live, rows, copies, expected = both(parted, topic, tmp_path)
    assert rows == expected
    assert [row["value"] for row in rows] == ([] if topic == "same" else [value.decode() for _, value in TAIL])
    assert (live["parted_by"], copies["parted_by"]) == ("leader epochs", "leader epochs")
    # Of a copy it is not known whether what is before its first batch was compacted away or deleted.
    assert live["missing_before_parting"] == (6 if topic == "cleaned" else 0)
    same = ("log_end_offset", "records", "topic_id", "newer_value", "sent_again", "offsets_not_compared", "partial")
    assert [live[name] for name in same] == [copies[name] for name in same]
    assert (live["shared_batches"], live["current"]) == (None, f"{topic}-0 at {parted.servers}")
    if topic == "busy":
        marks = [(row["sent_again_offset"] is not None, row["newer_offset"] is not None) for row in rows]
        # What was aborted there is no newer value.
        assert marks == [(True, True), (False, True), (False, False), (False, True), (False, False)]
    if topic == "same":
        assert live["notes"] == []
    if topic == "empty":
        assert any("is empty; " in note for note in live["notes"])
    if topic == "quiet":
        assert any("the high watermark" in note for note in live["notes"])


def test_a_transaction_that_is_open_ends_what_can_be_compared(parted: Parted, tmp_path: Path) -> None:
    live, rows, _, expected = both(parted, "open", tmp_path)
    assert [row["offset"] for row in rows] == [row["offset"] for row in expected]
    assert (live["sent_again"], live["newer_value"]) == (0, 0)
    assert any("a transaction is open from offset" in note for note in live["notes"])


def test_where_compaction_left_nothing_more_is_listed_and_marked(parted: Parted, tmp_path: Path) -> None:
    live, rows, _, expected = both(parted, "emptied", tmp_path)
    assert [row["offset"] for row in rows] == [*range(7), *(row["offset"] for row in expected)]
    assert all(row["newer_offset"] is not None for row in rows[:7])
    assert rows[7:] == expected
    assert any("no record at offsets 0 to 7" in note for note in live["notes"])


def test_a_log_that_ends_in_an_epoch_of_the_old_one_shows_no_parting(parted: Parted, tmp_path: Path) -> None:
    live, rows, _, _ = both(parted, "ahead", tmp_path)
    assert (live["parted_by"], len(rows)) == ("end of the live log", len(TAIL))
    assert any("nothing shows that its log ended there" in note for note in live["notes"])


def test_offsets_that_the_cluster_deleted_are_not_compared(parted: Parted, tmp_path: Path) -> None:
    live, rows, _, expected = both(parted, "cut", tmp_path)
    assert [row["offset"] for row in rows] == [row["offset"] for row in expected[1:]] == [9, 10, 11, 12]
    assert live["offsets_not_compared"] == 9


def run(*words: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["salvage", *map(str, words)])
    return done.exit_code, f"{done.output}{done.exception}"


def test_what_a_consumer_does_not_get_is_said(parted: Parted) -> None:
    code, text = run("--from", parted.old, "--bootstrap", parted.servers, "--partition", "busy-0")
    assert code == 0
    assert "read by a consumer: producer ids, sequences and ends of transactions" in text
    admin = AdminClient({"bootstrap.servers": parted.servers, "log_level": 0})
    groups = admin.list_consumer_groups().result(60)
    assert (groups.valid, groups.errors) == ([], [])


def test_records_are_produced_once_however_often(parted: Parted, tmp_path: Path) -> None:
    out = tmp_path / "out"
    salvage(parted.old, parted.current, ["quiet-0"], None, out, lambda line: None)
    target = LiveCluster(parted.servers), "again"
    with pytest.raises(SalvageError, match="Create the topic first"):
        send_again(out, *target, True)
    admin = AdminClient({"bootstrap.servers": parted.servers, "log_level": 0})
    admin.create_topics([NewTopic("again", 1, 1)])["again"].result(60)
    produce(parted.servers, "again", (None, b"before"))
    counted, sent = (send_again(out, *target, send) for send in (False, True))
    assert ((counted.to_send, counted.sent), sent.sent) == ((len(TAIL), 0), len(TAIL))
    ledger = out / "produced.jsonl"
    ledger.write_text(ledger.read_text().splitlines()[0] + "\n")  # as if it was killed before it noted them
    repeated = send_again(out, *target, True)
    assert (repeated.before, repeated.sent) == (len(TAIL), 0)
    (log,) = LiveCluster(parted.servers).logs([("again", 0)]).values()
    records = [each.record for each in log.records(0)][1:]
    assert [(record.key, record.value) for record in records] == TAIL
    assert [record.timestamp_ms for record in records] == [TIME_MS + n for n in range(len(TAIL))]


def test_records_that_the_topic_would_delete_again_are_refused(parted: Parted, tmp_path: Path) -> None:
    out = tmp_path / "out"
    salvage(parted.old, parted.current, ["quiet-0"], None, out, lambda line: None)
    admin = AdminClient({"bootstrap.servers": parted.servers, "log_level": 0})
    week = NewTopic("a-week", 1, 1, config={"retention.ms": str(7 * 86_400_000)})
    admin.create_topics([week])["a-week"].result(60)
    for send in (False, True):
        with pytest.raises(SalvageError, match=f"a-week: {len(TAIL)} of the records are older than its retention.ms"):
            send_again(out, LiveCluster(parted.servers), "a-week", send)
    appended = NewTopic("appended", 1, 1, config={"retention.ms": "60000", "message.timestamp.type": "LogAppendTime"})
    admin.create_topics([appended])["appended"].result(60)
    assert send_again(out, LiveCluster(parted.servers), "appended", False).to_send == len(TAIL)


def test_no_old_value_goes_after_a_newer_one_into_a_compacted_original(parted: Parted, tmp_path: Path) -> None:
    """No lake says whether it is compacted: the cluster does."""
    out = tmp_path / "out"
    salvage(parted.old, parted.current, ["busy-0"], None, out, lambda line: None)
    admin = AdminClient({"bootstrap.servers": parted.servers, "log_level": 0})
    found = {}
    for policy in ("compact", "delete"):
        entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, "busy", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(60)
        wait_for(
            f"busy has {policy}",
            lambda policy=policy: LiveCluster(parted.servers).topic_config("busy")["cleanup.policy"] == policy,
        )
        counted = send_again(out, LiveCluster(parted.servers), "busy", False, into_original=True)
        found[policy] = counted.left_out["its key has a newer value"]
    assert found == {"compact": 2, "delete": 0}


def test_clusters_and_topics_that_cannot_be_compared(parted: Parted, tmp_path: Path) -> None:
    home = tmp_path / "old"
    shutil.copytree(parted.old / "busy-0", home / "gone-0")
    for place in (home, tmp_path / "nothing"):
        place.mkdir(exist_ok=True)
        code, text = run("--from", place, "--bootstrap", parted.servers)
        assert (code, "have no replica of the same partition" in text) == (1, True)
    assert "gone" not in AdminClient({"bootstrap.servers": parted.servers}).list_topics(timeout=30).topics
    shutil.copytree(parted.old / "busy-0", home / "quiet-0")
    code, text = run("--from", home, "--bootstrap", parted.servers)
    assert (code, "the topic was made anew" in text) == (1, True)
    code, text = run("--from", home, "--bootstrap", parted.servers, "--partition", "quiet-7")
    assert (code, "no replica of quiet-7" in text) == (1, True)
    (home / "quiet-0" / "partition.metadata").unlink()
    code, text = run("--from", home, "--bootstrap", parted.servers, "--partition", "quiet-0")
    assert (code, "another partition's folder" in text) == (1, True)


def test_a_broker_that_does_not_answer(parted: Parted, tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text("socket.timeout.ms=2000\n")
    words = ("--from", parted.old, "--client-config", tmp_path / "client.properties")
    code, text = run(*words, "--bootstrap", f"127.0.0.1:{free_ports(1)[0]}")
    assert (code, "Connection refused" in text) == (1, True), text
