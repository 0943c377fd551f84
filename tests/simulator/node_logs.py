"""What brokers log of the partition and of themselves: the lines of server.log and state-change.log as each release
writes them, and the same lines as rows of evidence.tables.BROKER_LOG_EVENTS.

Texts: texts.toml. docs/broker_logs.md says what each line proves, and where releases differ.
"""

import random
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from evidence.tables import BROKER_LOG_EVENTS
from replay.findings.log_lines import COMPARED
from tests.simulator.setup import BEGIN_MS, Setup

Row = dict[str, Any]

STATE_CHANGE, SERVER = "state-change.log", "server.log"
HOUR_MS = 3_600_000
ZONES_MS = tuple(int(hours * HOUR_MS) for hours in (0, 0, 1, -5, 5.5, 12.75, -9.5))
NO_LINE: Row = dict.fromkeys(BROKER_LOG_EVENTS.names)
_OF_NO_TOPIC = ("clean_start", "unclean_start")
_IN_STATE_CHANGE = ("leader_started", "follower_started", "leader_unchanged", "follower_unchanged", "partition_created")
# Lines that name the topic id.
_WITH_ID = ("leader_started", "leader_unchanged", "follower_unchanged", "partition_created", "log_load_completed")
# What each package's loggers print; a site may let one print warnings alone. Who registers (BrokerLifecycleManager) and
# who truncates (ReplicaFetcherThread) are in one, kafka.server, up to 4.1; so a log that names its process shows both.
LOGGERS = {
    "kafka.cluster": ("isr_updated", "isr_shrinking", "log_loaded"),
    "kafka.log": ("clean_start", "unclean_start", "log_load_completed", "logs_loaded"),
    "kafka.server": ("truncating_to_leaders_epoch", "fetch_offset_reset", "broker_registered", "broker_starting"),
    "org.apache.kafka.storage": (
        *("truncated", "truncated_below_high_watermark", "truncation_without_effect", "high_watermark_set_back"),
        "corruption_found",
    ),
    "org.apache.kafka.common.utils": ("signal_received", "kafka_version"),
    "state.change.logger": (
        *("leader_started", "follower_started", "leader_unchanged", "follower_unchanged", "partition_created"),
    ),
}


class Line(NamedTuple):
    """at_ms: true time. values: columns of BROKER_LOG_EVENTS, as the broker's release prints them."""

    at_ms: int
    broker: int
    kind: str
    topic_id: str
    values: Row


class Reading(NamedTuple):
    """A machine's boot id, as a round of capturing read it. booted_by_ms: when it had started at the latest, by its
    uptime; None: that was not read, or its disks are not known to be its own."""

    broker: int
    boot_id: str
    captured_at_ms: int
    uncertainty_ms: int
    booted_by_ms: int | None = None


def journals(crashes: Iterable[tuple[int, int]], setup: Setup) -> Iterator[Reading]:
    """What machines' journals, if they are kept, say of the runs that ended with a crash: when the last entry that was
    on disk was written, by a clock that is off by less than is taken for granted. Of some runs no entry was."""
    rng = random.Random(f"journals {setup.seed}")
    kept, off_ms = rng.random() < 0.6, rng.choice((0, 500, 3_000, 60_000))
    runs: dict[int, tuple[int, int]] = {}
    for at_ms, broker in crashes if kept else ():
        number, booted_ms = runs.get(broker, (0, 0))
        runs[broker] = number + 1, at_ms
        last_ms = at_ms - rng.choice((0, 0, 300, 3_000, 30_000))
        if last_ms > booted_ms and rng.random() < 0.8:
            read_ms = last_ms + setup.skew_ms(1) - rng.randint(0, 2 * off_ms)
            booted_by_ms = read_ms + 2 * off_ms - (last_ms - booted_ms) // 1_000 * 1_000
            yield Reading(broker, f"{broker}-{number}", read_ms, 2 * off_ms, booted_by_ms)


def release(setup: Setup, place: int) -> str:
    """Of a broker by its place among Setup.brokers. Some clusters are in the middle of an upgrade."""
    if setup.profile == "4.3" or (setup.seed % 5 == 0 and place % 2):
        return "4.3.1"
    if not setup.hwm_stands_below_min_isr:
        return "3.9.1"
    return "4.0.2" if setup.profile == "4.0" else "4.1.1"


def is_new(release: str) -> bool:
    """Whether it prints as 4.2 and later do."""
    return release >= "4.2"


@dataclass(frozen=True)
class LogThinning:
    """What is left of the brokers' logs, and how their times are. share: of lines that are gone. missing: of files that
    were rotated away. silent: of brokers whose logs are gone. utc_off: whether times in UTC
    are wrong, by hours, or missing. stepped: whether wall clocks are set back once. copied: whether an archive holds
    some lines again. silenced: kinds that no broker logs."""

    share: float = 0.0
    missing: float = 0.0
    silent: float = 0.0
    utc_off: bool = False
    stepped: bool = False
    copied: bool = False
    seed: int = 0
    silenced: frozenset[str] = frozenset()


def rows(lines: Sequence[Line], crashes: Iterable[tuple[int, int]], setup: Setup, thinning: LogThinning) -> list[Row]:
    """The lines that are left, as BROKER_LOG_EVENTS rows; positions only give their order. crashes: (ms, broker) of
    each machine, which takes the last lines with it."""
    rng = random.Random(thinning.seed)
    place = {broker: number for number, broker in enumerate(setup.brokers)}
    zone = {broker: rng.choice(ZONES_MS) for broker in setup.brokers}
    off = {broker: rng.choice((None, 0, HOUR_MS, -zone[broker])) for broker in setup.brokers}
    silent = {broker for broker in setup.brokers if rng.random() < thinning.silent}
    torn: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for at_ms, broker in crashes:
        torn[broker].append((at_ms - rng.choice((0, 0, 300, 3_000, 30_000)), at_ms))
    end_ms = lines[-1].at_ms if lines else BEGIN_MS
    step = {b: (rng.randint(BEGIN_MS, end_ms), rng.randint(1, 40_000)) for b in setup.brokers if thinning.stepped}
    rotated_ms = rng.choice((20_000, 120_000, HOUR_MS))
    fate: dict[tuple[int, str, int], bool] = {}
    result = []
    for number, line in enumerate(lines):
        name = STATE_CHANGE if line.kind in _IN_STATE_CHANGE else SERVER
        file = line.broker, name, line.at_ms // rotated_ms
        if file not in fate:
            fate[file] = rng.random() >= thinning.missing
        kept = rng.random() >= thinning.share and fate[file] and line.broker not in silent
        if (
            not kept
            or line.kind in thinning.silenced
            or any(begin < line.at_ms <= end for begin, end in torn[line.broker])
        ):
            continue
        at_ms = line.at_ms + setup.skew_ms(2 + place[line.broker])
        stepped_ms, back_ms = step.get(line.broker, (line.at_ms, 0))
        at_ms -= back_ms if line.at_ms > stepped_ms else 0
        wrong = off[line.broker] if thinning.utc_off else 0
        values = {
            "node_id": line.broker,
            "logged_at_ms": at_ms + zone[line.broker],
            "logged_at_utc_ms": None if wrong is None else at_ms + wrong,
            "kind": line.kind,
            # What is compared with the metadata log has to print the topic id.
            "message": text(line, setup) if line.kind in COMPARED else None,
            "capture": "c",
            "path": f"broker-{line.broker}/{name}.{file[2]}",
            "sha256": "00",
            "position": number,
        }
        result.append({**NO_LINE, **_topic(line, setup), **line.values, **values})
    if thinning.copied:
        result += [{**row, "path": f"archive/{row['path']}"} for row in result if rng.random() < 0.3]
    return result


def _topic(line: Line, setup: Setup) -> Row:
    if line.kind in _OF_NO_TOPIC:
        return {}
    topic_id = line.topic_id if line.kind in _WITH_ID else None
    return {"topic": setup.topic, "partition": setup.partition, "topic_id": topic_id}


# The same as text.

TEXTS = tomllib.loads(Path(__file__).with_name("texts.toml").read_text(encoding="utf-8"))


def text(line: Line, setup: Setup) -> str:
    """The message as the broker's release writes it, after the time and before the logger."""
    values, new = line.values, is_new(release(setup, setup.brokers.index(line.broker)))
    previous = values.get("previous_leader")
    late = (
        f"(brokerId: {o['broker_id']}, endOffset: {o['log_end_offset']}, lastCaughtUpTimeMs: {o['last_caught_up_ms']})"
        for o in values.get("out_of_sync", ())
    )
    words = {
        "topic": setup.topic,
        "partition": setup.partition,
        "topic_id": line.topic_id,
        "broker": line.broker,
        "id": f" with topic id Some({line.topic_id})" if line.kind in _WITH_ID else "",
        "role": line.kind.partition("_")[0],
        "under": "(under-min-isr)" if values.get("under_min_isr") else "",
        "previous": "None" if previous is None else f"Some({previous})",
        "last": values.get("log_end_offset", 0) - 1,
        "late": " ".join(late),
        **{name: ",".join(map(str, value)) if isinstance(value, list) else value for name, value in values.items()},
    }
    state = TEXTS["states"]["new" if new else "old"] if line.kind.endswith("unchanged") else ""
    return str(TEXTS["of_partitions"][line.kind].format_map({**words, "state": state.format_map(words)}))


def files(lines: Iterable[Line], setup: Setup) -> dict[str, str]:
    """By path, the text of each file of a site that captured everything, with times in UTC."""
    result: dict[str, str] = defaultdict(str)
    for line in lines:
        name, logger = (STATE_CHANGE, "state.change.logger") if line.kind in _IN_STATE_CHANGE else (SERVER, "kafka.log")
        at = datetime.fromtimestamp(line.at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        message = f"[{at},{line.at_ms % 1000:03}] INFO {text(line, setup)} ({logger})\n"
        result[f"broker-{line.broker}/{name}"] += message
    return dict(result)
