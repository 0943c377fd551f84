"""Files with a meaningless name are classified by their first bytes; nothing else is taken for evidence."""

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import kinds
from evidence.capture.sniff import HEAD_BYTES, sniff
from tests.support.cli import printed
from tests.support.golden import cases
from tests.support.paths import ORACLE, ROOT
from tests.unit.evidence.accounting import FUZZ
from tests.unit.evidence.broker_logs.support import RELEASES, SAMPLES


@pytest.mark.parametrize(
    ("tool", "kind"),
    [
        ("kafka-topics", kinds.TOPICS_DESCRIBE),
        ("get-offsets", kinds.GET_OFFSETS),
        ("log-dirs", kinds.LOG_DIRS),
        ("quorum-status", kinds.QUORUM_STATUS),
        ("quorum-replication", kinds.QUORUM_REPLICATION),
        ("leader-election", None),
        ("features", None),
    ],
)
def test_what_tools_printed_is_known(tool: str, kind: str | None) -> None:
    texts = [text for name in ("unclean", "elr", "churn", "diverge") for text in printed(name, tool)]
    assert texts
    assert {sniff(text[:HEAD_BYTES]) for text in texts} == {kind}


@pytest.mark.parametrize(
    "prefix", [b"[pod/kafka-0/kafka] ", b"2026-11-21T00:00:00.123456789Z ", b"[pod/a/b] 2026-11-21T05:30:00.1+05:30 "]
)
@pytest.mark.parametrize("tool", ["kafka-topics", "get-offsets", "log-dirs", "quorum-status", "quorum-replication"])
def test_what_kubectl_puts_before_a_line_hides_no_tool(tool: str, prefix: bytes) -> None:
    """Such a file was only registered, as if it were no evidence."""
    (text, *_) = printed("elr", tool)
    lines = b"".join(prefix + line for line in text.splitlines(keepends=True))
    assert sniff(lines[:HEAD_BYTES]) == sniff(text[:HEAD_BYTES])


@pytest.mark.parametrize("file", sorted(ORACLE.glob("*dump-log*.txt.gz")), ids=lambda f: f.name)
def test_dumps_are_known(file: object) -> None:
    text = gzip.decompress(file.read_bytes())  # type: ignore[attr-defined]
    assert sniff(text[:HEAD_BYTES]) == kinds.DUMP_LOG
    payloads = b"\n".join(line.split(b"payload: ", 1)[1] for line in text.splitlines() if b"payload: {" in line)
    assert sniff(payloads[:HEAD_BYTES]) == (kinds.DUMP_LOG if payloads else None)


@pytest.mark.parametrize("case", cases("sniffed"))
def test_a_few_lines_decide(case: dict[str, Any]) -> None:
    """What kubectl logs prints of Strimzi's pods, too: its file has the pod's name, short loggers and whole seconds."""
    assert sniff(case["text"].encode("utf-8", "surrogateescape")) == case["kind"]


@pytest.mark.parametrize("wrapped", [("utf-16", ""), ("utf-8", "\x1b[32m")])
def test_a_text_in_utf_16_or_with_colours_is_known(wrapped: tuple[str, str]) -> None:
    encoding, colour = wrapped
    assert sniff(f"{colour}orders:0:12\x1b[0m\norders:1:7\n".encode(encoding)) == kinds.GET_OFFSETS


@pytest.mark.parametrize("release", RELEASES)
def test_logs_of_brokers_are_known(release: str) -> None:
    for name in ("server", "state-change", "controller"):
        kind = sniff((SAMPLES / release / f"{name}.log").read_bytes()[:HEAD_BYTES])
        assert kind == f"{name.replace('-', '_')}_log"
    for file in (SAMPLES / release).glob("*.json"):
        assert sniff(file.read_bytes()[:HEAD_BYTES]) == kinds.SERVER_LOG


def test_nothing_in_this_project_that_is_no_evidence_is_taken_for_some() -> None:
    files = [
        f for pattern in ("*.md", "*.toml", "evidence/**/*.py", "jobs/**/*.py", ".ci/*") for f in ROOT.glob(pattern)
    ]
    assert len(files) > 20
    assert {f.name: kind for f in files if (kind := sniff(f.read_bytes()[:HEAD_BYTES]))} == {}


@FUZZ
@given(data=st.binary(max_size=400), pick=st.integers(0, 3))
def test_any_bytes_have_a_kind_or_none(data: bytes, pick: int) -> None:
    start = (b"", b"{", b"Topic: ", json.dumps({"brokers": 1}).encode())[pick]
    assert sniff(start + data) in {None, *(v for v in vars(kinds).values() if isinstance(v, str))}
