"""What a file is, which node it is from and when it was taken, judged by its path."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from evidence import kinds
from evidence.limits import int32_of

SEGMENT = "00000000000000000000.log"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"controllers/3000/__cluster_metadata-0/{SEGMENT}", kinds.METADATA_SEGMENT),
        (f"controller-3000/{SEGMENT}", kinds.METADATA_SEGMENT),
        (SEGMENT, kinds.METADATA_SEGMENT),
        (f"data/orders-0/{SEGMENT}", kinds.REPLICA_SEGMENT),
        (f"data/orders-0/{0:020d}.heads", kinds.BATCH_HEADS),
        *((f"data/orders-0.{'0a' * 16}-{leaving}/{SEGMENT}", kinds.OTHER) for leaving in ("delete", "stray", "future")),
        (f"data/{0:020d}.heads", kinds.OTHER),
        (f"data/__cluster_metadata-0/{0:020d}.heads", kinds.OTHER),
        (f"data/kafka-0/{SEGMENT}", kinds.REPLICA_SEGMENT),
        ("x/00000000000000000080-0000000001.checkpoint", kinds.METADATA_CHECKPOINT),
        ("x/00000000000000000080-0000000001.checkpoint.part", kinds.OTHER),
        ("x/00000000000000000080-0000000001.checkpoint.deleted", kinds.OTHER),
        ("x/00000000000000000080-0000000001.checkpoint.123.part", kinds.OTHER),
        (f"orders-0/{SEGMENT}.deleted", kinds.OTHER),
        (f"orders-0/{SEGMENT}.swap", kinds.OTHER),
        (f"orders-0/{SEGMENT}.cleaned", kinds.OTHER),
        ("orders-0/00000000000000000000.index", kinds.OTHER),
        ("bootstrap.checkpoint", kinds.BOOTSTRAP_CHECKPOINT),
        ("data/orders-12/leader-epoch-checkpoint", kinds.LEADER_EPOCH),
        ("data/orders-12-3/leader-epoch-checkpoint", kinds.LEADER_EPOCH),
        ("__cluster_metadata-0/leader-epoch-checkpoint", kinds.LEADER_EPOCH),
        ("data/leader-epoch-checkpoint", kinds.OTHER),
        ("data/orders-0.0123456789abcdef-delete/leader-epoch-checkpoint", kinds.OTHER),
        ("data/orders-0.0123456789abcdef-future/leader-epoch-checkpoint", kinds.OTHER),
        ("data/orders-99999999999/leader-epoch-checkpoint", kinds.OTHER),
        ("data/orders-٣/leader-epoch-checkpoint", kinds.OTHER),
        ("data/replication-offset-checkpoint", kinds.REPLICATION_OFFSET),
        ("data/recovery-point-offset-checkpoint", kinds.RECOVERY_POINT),
        ("data/log-start-offset-checkpoint", kinds.LOG_START_OFFSET),
        ("x/metrics.prom", kinds.JMX_EXPORTER),
        ("x/metrics.om", kinds.JMX_EXPORTER),
        ("x/metrics.openmetrics", kinds.JMX_EXPORTER),
        ("meta.properties", kinds.META_PROPERTIES),
        ("server.properties", kinds.SERVER_PROPERTIES),
        ("orders-0/partition.metadata", kinds.PARTITION_METADATA),
        ("quorum-state", kinds.QUORUM_STATE),
        ("0.log", kinds.OTHER),
        ("٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠.log", kinds.OTHER),
        ("node-1/listing-logdir0.txt.gz", kinds.LISTING),
        ("node-1/listing-metadata.txt", kinds.LISTING),
        ("node-1/listing.txt", kinds.OTHER),
        ("README.txt", kinds.OTHER),
        ("logs/broker-1/server.log", kinds.SERVER_LOG),
        *((f"server.log.{end}", kinds.SERVER_LOG) for end in ("2026-11-21-00", "2026-11-21", "1", "12.gz", "zst")),
        ("server.log.2026-11-21-00.gz", kinds.SERVER_LOG),
        ("server-2026-11-21-00.log.gz", kinds.SERVER_LOG),
        ("server.log-20261121.gz", kinds.SERVER_LOG),
        ("state-change.log", kinds.STATE_CHANGE_LOG),
        ("state-change.log.2026-11-21-00", kinds.STATE_CHANGE_LOG),
        ("controller.log", kinds.CONTROLLER_LOG),
        ("controller.log.3.gz", kinds.CONTROLLER_LOG),
        ("log-cleaner.log", kinds.OTHER),
        ("webserver.log", kinds.OTHER),
        ("server.log.bak", kinds.OTHER),
        ("server.logs", kinds.OTHER),
        ("server.log.1.part", kinds.OTHER),
    ],
)
def test_a_files_kind_is_known_by_its_name_and_folder(path: str, kind: str) -> None:
    assert kinds.classify(PurePosixPath(path)) == kind


@pytest.mark.parametrize(
    ("path", "node"),
    [
        ("disks/broker-3/data/replication-offset-checkpoint", 3),
        ("controllers/3000/__cluster_metadata-0/x.log", 3000),
        ("1795221569450/node_7/x", 7),
        ("Kafka.12/x", 12),
        ("broker-3/orders-0/leader-epoch-checkpoint", 3),
        # Topics with a node's name do not name the node.
        ("broker-3/kafka-0/leader-epoch-checkpoint", 3),
        (f"broker-3/server-1/{SEGMENT}", 3),
        ("kafka-0/leader-epoch-checkpoint", None),
        ("broker-3/kafka-0/00000000000000000007.timeindex", 3),
        (f"broker-3/node-1.{'0a' * 16}-future/{SEGMENT}", 3),
        # A folder of a day, or of a time in seconds.
        ("broker-3/20261120/replication-offset-checkpoint", 3),
        ("broker-3/1795221609/server.log", 3),
        ("20261120/broker-3/x", 3),
        ("10001001/x", 10001001),
        ("broker-2147483647/x", 2147483647),
        ("broker-2147483648/x", None),
        ("9999999999/x", None),
        ("1795221569450/x", None),
        ("broker-٣/x", None),
        ("broker-3", None),
        ("x", None),
    ],
)
def test_the_node_is_the_one_that_the_innermost_folder_names(path: str, node: int | None) -> None:
    assert kinds.node_in_path(PurePosixPath(path)) == node


@pytest.mark.parametrize(
    ("path", "at"),
    [
        ("snapshots/1795221569450/broker-1/x", 1795221569450),
        ("1700000000000/cli/1795221569450-kafka-log-dirs.json", 1795221569450),
        ("snapshots/17952215694501/x", None),
        ("x", None),
        # A folder or file of a replica's log names a topic, never a time.
        ("metrics-1700000000000-0/leader-epoch-checkpoint", None),
        ("x1700000000000-0/partition.metadata", None),
        (f"x.1700000000000-0/{SEGMENT}", None),
        ("x.1700000000000-0/00000000000000000000.1700000000000.log", None),
        ("x.1700000000000-0/00000000000000000007.index", None),
        (f"1700000000000-0.{'0a' * 16}-future/{SEGMENT}", None),
        (f"1700000000000-0.{'0a' * 16}-delete/leader-epoch-checkpoint", None),
        (f"1795221569450/broker-1/metrics-1700000000000-12/{SEGMENT}", 1795221569450),
        ("1795221569450/metrics-1700000000000-12/leader-epoch-checkpoint", 1795221569450),
        # A folder of that form with other files in it is no replica's.
        ("1795221569450-broker-1/replication-offset-checkpoint", 1795221569450),
        ("round-1795221569450-1/metrics.prom", 1795221569450),
        (f"1795221569450-broker-1/t-0/{SEGMENT}", 1795221569450),
        # Beyond 13 digits, or before 2001, a number is no time.
        ("snapshots/9999999999999/x", None),
        ("snapshots/0999999999999/x", None),
    ],
)
def test_the_time_is_the_innermost_number_of_epoch_milliseconds(path: str, at: int | None) -> None:
    assert kinds.captured_at(PurePosixPath(path)) == at


def test_a_snapshots_name_gives_its_end_offset_and_epoch() -> None:
    assert kinds.checkpoint_name("00000000000000000080-0000000003.checkpoint") == (80, 3)
    assert kinds.checkpoint_name("00000000000000000080-0000000003.checkpoint.part") is None


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("2147483647", 2147483647), *((t, None) for t in ("2147483648", "-1", "", "²", "٣", "1 ", "1_0"))],
)
def test_a_node_id_is_an_int32_in_plain_digits_that_is_not_negative(text: str, number: int | None) -> None:
    assert int32_of(text) == number
