"""Every source of offsets from the file to the tables: hostile values and damaged bytes never stop the others."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.offsets.read import OffsetTables
from tests.support.cli import printed
from tests.support.paths import ROOT
from tests.unit.evidence.accounting import FUZZ
from tests.unit.evidence.offsets import support
from tests.unit.evidence.offsets.support import BROKER, LOG_INFO
from tests.unit.evidence.offsets.test_batch_heads import WHOLE

SAMPLES = ROOT / "tests" / "samples"
FILES = sorted(
    f for name in ("node", "tools", "responses", "exporters") for f in (SAMPLES / name).rglob("*") if f.is_file()
)
ANSWERS: dict[str, Any] = {f.name: json.loads(f.read_text()) for f in FILES if f.suffix == ".json"}
ANSWERS["log-dirs.json"] = json.loads((SAMPLES / "tools/log-dirs.txt").read_text().splitlines()[-1])
ANSWERS["replica-log-info.json"] = LOG_INFO
ANSWERS["quorum-state"] = json.loads((SAMPLES / "node/__cluster_metadata-0/quorum-state").read_text())
ANSWERS[".kafka_cleanshutdown"] = json.loads((SAMPLES / "node/.kafka_cleanshutdown").read_text())
SEEDS = [(f.relative_to(SAMPLES).as_posix(), f.read_bytes()) for f in FILES]
SEEDS += [(name, json.dumps(answer).encode()) for name, answer in ANSWERS.items() if "/" not in name]
SEEDS += [(f"{tool}.txt", printed("diverge", tool)[0]) for tool in ("get-offsets", "kafka-topics", "quorum-status")]
SEEDS += [(f"orders-1/{0:020d}.heads", WHOLE)]
HOSTILE = st.one_of(
    st.sampled_from([None, True, "", "-", "a-9999999999", "a-\u0663", "\ud800-1", "x" * 300, [], {}, 1.0]),
    st.sampled_from([-1, -2, 1 << 31, -(1 << 31) - 1, (1 << 63) - 1, 1 << 63, 1 << 64]),
)


def read(files: dict[str, bytes]) -> tuple[OffsetTables, dict[str, str]]:
    with TemporaryDirectory() as folder:
        return support.read(Path(folder, "capture"), files)


def _replaced(value: Any, path: list[str | int], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _replaced(value[path[0]], path[1:], new)
    return copy


def _leaves(value: Any) -> list[list[str | int]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [[key, *rest] for key, inner in items for rest in _leaves(inner)] or [[]]


@FUZZ
@given(data=st.data())
def test_no_value_in_an_answer_keeps_the_tables_from_being_made(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(ANSWERS)))
    path = data.draw(st.sampled_from(_leaves(ANSWERS[name])))
    answer = _replaced(ANSWERS[name], path, data.draw(HOSTILE))
    good = {f"{BROKER}/replication-offset-checkpoint": b"0\n1\norders 0 12\n"}
    found, _ = read({f"{BROKER}/{name}": json.dumps(answer).encode(), **good})
    assert "replication_offset" in found.log_end_offsets["source"].to_pylist()
    for column in ("log_end_offset", "high_watermark", "log_start_offset", "offset_lag", "leader_epoch"):
        assert all(v is None or v >= 0 for v in found.log_end_offsets[column].to_pylist())


# Of what the texts consist, so that damage stays near their form.
SIGNS = [b'"', b",", b"\\", b"=", b":", b"\n", b"\r\n", b"\t", b"{", b"}", b"[", b"\0", b"\xff"]
PIECES = [*SIGNS, b"time", b"NaN", b"-1", b"9" * 19, b"torn"]
PIECES += [b"kafka.log:type=Log,name=LogEndOffset", b',topic="', b"kafka_log_Log_LogEndOffset"]


@settings(FUZZ, max_examples=3 * FUZZ.max_examples)
@given(data=st.data())
def test_no_damage_to_a_file_keeps_the_tables_from_being_made(data: st.DataObject) -> None:
    name, whole = data.draw(st.sampled_from(SEEDS))
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.integers(0, len(content)))
        new = data.draw(st.one_of(st.binary(max_size=6), st.sampled_from(PIECES)))
        content[at : at + data.draw(st.integers(0, 80))] = new
    named = {} if name.endswith("meta.properties") else {f"{BROKER}/meta.properties": b"node.id=4\n"}
    read({f"{BROKER}/{name}": bytes(content[: data.draw(st.integers(0, len(content)))]), **named})
    read({f"{BROKER}/{name}": bytes(content), **named})
