"""What a capture lacks: of facts made by hand, and of real captures from which files are taken away.

tests/unit/golden/lacks.jsonl has changes of the facts of a complete capture, a line each, and all that is missing then.
"""

import json
import re
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evidence import kinds
from evidence.completeness.facts import Facts, LogCoverage, merged
from evidence.completeness.lacks import LACKS, lacks_of
from evidence.limits import YEAR_1_MS
from evidence.wire.batches import scan_batches
from jobs.cli.commands import app
from jobs.console.output import utc
from tests.support.golden import filled
from tests.support.log_text import log_of
from tests.support.nodes import NAME
from tests.support.paths import ROOT, rounds, unpacked
from tests.support.small_captures import SEGMENT, write_files

HOUR_MS = 3_600_000
AT_MS = 1_795_300_000_000


def complete() -> Facts:
    """Three controllers, two brokers and a window, with everything."""
    held = {kinds.REPLICATION_OFFSET, kinds.RECOVERY_POINT, kinds.LEADER_EPOCH, kinds.BATCH_HEADS, kinds.JMX_EXPORTER}
    span = LogCoverage(AT_MS - HOUR_MS, AT_MS + HOUR_MS, in_utc=True)
    return Facts(
        has_log=True,
        logs={3000: [(0, 100)], 3001: [(0, 100)], 3002: [(0, 90)]},
        controllers={3000, 3001, 3002},
        brokers={1, 2},
        replicas={1: {("orders", 0)}, 2: {("orders", 0)}},
        exposed_ms=[AT_MS, AT_MS + 5],
        files={1: held, 2: held},
        epochs={1: {("orders", 0)}, 2: {("orders", 0)}},
        own_logs={broker: {kinds.SERVER_LOG: span, kinds.STATE_CHANGE_LOG: span} for broker in (1, 2)},
        boot_ids={1: 2, 2: 2},
        configs={3000, 3001, 3002},
        clock_error_ms=5,
    )


def changed(change: dict[str, Any]) -> Facts:
    """complete() with other values; of what is held by node, of these nodes, `gone` for none."""
    facts = complete()
    for name, value in change.items():
        if isinstance(held := getattr(facts, name), dict):
            held |= {int(node): typed(name, of) for node, of in value.items() if of != "gone"}
            setattr(facts, name, {node: of for node, of in held.items() if value.get(str(node)) != "gone"})
        else:
            setattr(facts, name, typed(name, value))
    return facts


def typed(name: str, value: Any) -> Any:
    """own_logs: first and last hour after AT_MS, and whether these are in UTC."""
    if name == "own_logs":
        return {kind: LogCoverage(AT_MS + a * HOUR_MS, AT_MS + b * HOUR_MS, utc) for kind, (a, b, utc) in value.items()}
    if not isinstance(value, list):
        return value
    items = [tuple(item) if isinstance(item, list) else item for item in value]
    return set(items) if name in ("configs", "files", "replicas") else items


@filled("lacks")
def test_what_is_missing(case: dict[str, Any]) -> dict[str, Any]:
    lacks = lacks_of(changed(case["change"]))
    return {"what": case["what"], "change": case["change"], "lacks": [asdict(lack) for lack in lacks]}


def test_every_rule_is_one_of_the_findings_page() -> None:
    page = (ROOT / "docs" / "findings.md").read_text()
    facts = Facts(has_log=True, logs={3000: [(5, 9)]}, log_start=5, controllers={3000, 3001}, brokers={1, 2})
    facts.files[2] = {kinds.LEADER_EPOCH}
    facts.gaps, facts.snapshot_ends = [(7, 8)], [5]
    rules = {rule for lack in lacks_of(facts) for rule in lack.rules} - {"all"}
    assert len(rules) > 10
    assert [rule for rule in sorted(rules) if f"**{rule}. " not in page] == []


def test_every_code_is_on_the_page() -> None:
    page = (ROOT / "docs" / "collect.md").read_text()
    source = (ROOT / "evidence" / "completeness" / "lacks.py").read_text()
    assert set(re.findall(r'"([a-z]+_[a-z_]+)"', source)) | {c for c in LACKS if "unless" in LACKS[c]} >= set(LACKS)
    assert [code for code in sorted(LACKS) if f"`{code}`" not in page] == []


def test_ranges_are_joined_where_they_touch() -> None:
    assert merged([(5, 7), (0, 2), (2, 4), (1, 3), (9, 9)]) == [(0, 4), (5, 7), (9, 9)]


def check(location: Path) -> tuple[int, list[dict[str, Any]]]:
    done = CliRunner().invoke(app, ["check", str(location), "--format", "json"])
    return done.exit_code, json.loads(done.stdout)["lacks"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real capture with its last two rounds of copying; of the clocks the manifest speaks."""
    places = ("controllers", "disks", "cli", "logs", *rounds(NAME)[-2:])
    root = unpacked(NAME, tmp_path_factory.mktemp("source"), *places)
    return write_files(root, {"capture.toml": "clock_error_ms = 5\n"})


def test_a_real_capture(source: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(source)])
    assert (done.exit_code, done.stdout) == (0, "Nothing that is needed is missing.\n")
    less = tmp_path / "less"
    shutil.copytree(source, less)
    for path in list(less.rglob("broker-3")):
        for file in list(path.rglob("leader-epoch-checkpoint")):
            file.unlink()
    for path in list(less.rglob("broker-4")):
        shutil.rmtree(path)
    for log in list(less.rglob("broker-1/**/state-change.log")):  # a container prints all to its stdout
        joined = log.with_name("server.log")
        joined.write_bytes(joined.read_bytes() + log.read_bytes())
        log.unlink()
    for log in list(less.rglob("broker-2/**/server.log*")):  # a layout that nobody knows
        log.write_bytes(b"[2026-11-21 00:00:00,123] INFO kafka.Kafka: starting\n")
    shutil.rmtree(less / "controllers" / "3001")
    log = less / "controllers" / "3000" / "__cluster_metadata-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[5000] ^= 1
    log.write_bytes(data)
    code, lacks = check(less)
    found = {(lack["code"], lack["node_id"], lack["needed"]) for lack in lacks}
    assert code == 3
    assert found == {
        ("no_leader_epochs", 3, True),
        ("broker_missing", 4, True),
        ("no_broker_log", 2, True),
        ("no_broker_log", 4, True),
        ("boot_ids_missing", 4, False),
        ("boot_time_unknown", 4, False),
        ("controller_log_missing", 3001, False),
        ("no_configs", 3001, False),
        ("damaged_file", 3000, True),
    }
    whats = [lack["what"] for lack in lacks if (lack["code"], lack["node_id"]) == ("no_broker_log", 2)]
    assert [what.partition(" for ")[0] for what in whats] == ["no line of a known layout and message in its server.log"]
    assert whats[0].endswith(" on: evidence.log_patterns tells a layout")


def test_a_record_that_cannot_be_decoded_is_damage_of_its_file(tmp_path: Path) -> None:
    """Its batch is sound, so that nothing is missing by the batches."""
    data = log_of("batch no_op topic:orders/more=7a topic:a/more=7a")
    write_files(tmp_path / "odd", {f"controllers/3000/{SEGMENT}": data})
    found = [lack for lack in check(tmp_path / "odd")[1] if lack["code"] == "damaged_file"]
    assert [lack["node_id"] for lack in found] == [3000]
    garbage = "(offset 1): found 1 byte(s) of garbage after TOPIC_RECORD"
    assert found[0]["what"] == f"controllers/3000/{SEGMENT}: byte 72 {garbage}"
    where = "what it says, else the file again, or from another node"
    line = f"  node 3000: {found[0]['what']} (may cost any verdict). Get: {where}"
    lines = CliRunner().invoke(app, ["check", str(tmp_path / "odd")]).stdout.splitlines()
    assert (line in lines, lines[-1]) == (True, "Rules, such as N6: docs/findings.md")


def test_a_log_of_an_unknown_node_is_told_beside_the_controllers_logs() -> None:
    facts = complete()
    facts.logs = {None: [(0, 100)]}
    told = "only 0 of 3 controllers' logs, and one of an unknown node (meta.properties next to it tells): "
    assert [lack.what.startswith(told) for lack in lacks_of(facts)] == [True] * 3


def test_a_window_before_the_year_1() -> None:
    """A record may have such a time; no calendar does."""
    facts = complete()
    facts.exposed_ms, facts.own_logs = [-200_000_000_000_000], {}
    assert "for the windows from -200000000000000 ms on" in lacks_of(facts)[0].what
    assert utc(-200_000_000_000_000) == "-200000000000000 ms"
    assert utc(YEAR_1_MS) == "0001-01-01T00:00:00.000Z"


def test_a_hole_in_the_log_of_all(source: Path, tmp_path: Path) -> None:
    log = next(source.glob(f"controllers/3000/__cluster_metadata-0/{0:020d}.log")).read_bytes()
    whole = scan_batches(log).batches
    cut = next(batch for batch in whole if batch.base_offset > 100)
    parts = {0: log[: cut.position], cut.last_offset + 1: log[cut.end :]}
    folder = "controllers/3000/__cluster_metadata-0"
    write_files(tmp_path / "hole", {f"{folder}/{offset:020d}.log": data for offset, data in parts.items()})
    _, lacks = check(tmp_path / "hole")
    gap = f"metadata offsets {cut.base_offset} to {cut.last_offset} are in no copy: nothing is concluded across them"
    assert gap in [lack["what"] for lack in lacks]


def test_a_log_as_kafka_dump_log_prints_it() -> None:
    """`check` ended with a trace."""
    code, lacks = check(ROOT / "tests" / "samples" / "dump-log" / "several.txt")
    assert (code, "no_metadata_log" in [lack["code"] for lack in lacks]) == (3, False)


def test_what_is_no_capture(tmp_path: Path) -> None:
    (zipped := tmp_path / "zipped").mkdir()
    (zipped / "dump.txt.gz").write_text("hello\n")
    packed = "this is no capture. Refused: dump.txt.gz: packed inside the capture: not opened. Unpack it"
    (renamed := tmp_path / "renamed").mkdir()
    (renamed / f"{0:020d} (1).log").touch()
    unknown = f"this is no capture. Not known: {0:020d} (1).log. A file needs the name that it has on its node."
    for path, message in ((renamed, unknown), (zipped, packed), (tmp_path / "absent", "no such file or folder")):
        done = CliRunner().invoke(app, ["check", str(path)])
        assert done.exit_code == 1
        assert message in str(done.exception)
