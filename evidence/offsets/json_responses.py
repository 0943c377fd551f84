"""Read JSON: the output of kafka-log-dirs, protocol responses in the form of Kafka's own JsonConverter, and what
Prometheus' HTTP API answers.

Each reader takes a file's bytes and returns rows, and damage over the whole file if it is not that response. An entry
with an error code is left out with a remark (a Damage of no bytes). -1 gives no value where Kafka uses it for
"unknown".
"""

import re
import tomllib
from collections.abc import Callable, Iterator
from functools import wraps
from importlib.resources import files
from typing import Annotated, Any

from prometheus_client.samples import Sample
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.alias_generators import to_camel

from evidence.errors import Damage, DecodeError
from evidence.limits import int32_of
from evidence.offsets.jmx_exporter import HIGH_WATERMARK, MetricNames, row_of
from evidence.offsets.tool_output import METADATA_TOPIC
from evidence.strict_json import read_object
from evidence.tables import Row

MAX_BYTES = 256 << 20
# The object begins on its own line: braces in log lines that the tool printed before it are skipped.
_START = re.compile(rb"^(?:\xef\xbb\xbf)?[ \t]*(?=\{)", re.MULTILINE)

Int32 = Annotated[int, Field(ge=-(1 << 31), lt=1 << 31)]
Int64 = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
Id = Annotated[int, Field(ge=0, lt=1 << 31)]


class _Answer(BaseModel):
    """Fields in snake_case, JSON in Kafka's camelCase; fields that are not needed are ignored."""

    model_config = ConfigDict(strict=True, frozen=True, alias_generator=to_camel, extra="ignore")


_TYPES: dict[str, Any] = {"str": str, "bool": bool, "int32": Int32, "int64": Int64, "id": Id}
_TYPES |= {"labels": dict[str, str], "list": list[Any]}


def _model(name: str, shape: dict[str, Any]) -> type[_Answer]:
    """The model of a shape of responses.toml."""
    fields: dict[str, Any] = {}
    for key, of in shape.items():
        field = key.removesuffix("?")
        kind, default = _field(f"{name}.{field}", of)
        fields[field] = (kind, default) if field == key else (kind | None, None)
    return create_model(name, __base__=_Answer, **fields)


def _field(name: str, of: Any) -> tuple[Any, Any]:
    """(type, default) of a field."""
    if isinstance(of, list):
        return list[_field(name, of[0])[0]], ...  # type: ignore[misc]
    if isinstance(of, dict):
        return _model(name, of), ...
    text, _, default = of.partition("=")
    kind = _TYPES[text.removesuffix("?")]
    return (kind | None if text.endswith("?") else kind), int(default) if default else ...


_MODELS = {
    name: _model(name, shape)
    for name, shape in tomllib.loads(files("evidence.offsets").joinpath("responses.toml").read_text("utf-8")).items()
}
_NO_TOPIC_ID = "A" * 22
Rows = Callable[[Any, list[Damage]], Iterator[Row]]


def _read(data: bytes, shape: str, rows_of: Rows) -> tuple[list[Row], list[Damage]]:
    """The rows of one JSON object of that shape; lines before it (the tool's log) are skipped."""
    remarks: list[Damage] = []
    try:
        if len(data) > MAX_BYTES:
            raise DecodeError("bad_response", f"{len(data)} bytes, at most {MAX_BYTES} are read", 0)
        found = _START.search(data)
        start = found.end() if found else 0
        answer = _MODELS[shape].model_validate(read_object(data[start:].strip()))
        return [{**row, "position": start} for row in rows_of(answer, remarks)], remarks
    except DecodeError as error:
        advice = ": store each output in a file" if "Extra data" in str(error) else ""
        return [], [Damage(0, len(data), None, error.reason, f"{error}{advice}")]
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        place, message = ".".join(map(str, first["loc"])), first["msg"].partition(" or instance of ")[0]
        return [], [Damage(0, len(data), None, "bad_response", f"field {place}: {message}")]


def _reads(shape: str) -> Callable[[Rows], Callable[[bytes], tuple[list[Row], list[Damage]]]]:
    """Make a reader of a file from a function that gives an answer's rows, and appends what it leaves out."""
    return lambda rows_of: wraps(rows_of)(lambda data: _read(data, shape, rows_of))


def _failed(answer: Any, what: str, remarks: list[Damage]) -> bool:
    if answer.error_code:
        message = f"{what}: error code {answer.error_code}: left out"
        remarks.append(Damage(0, 0, None, "error_code", message))
    return bool(answer.error_code)


def _known(value: int) -> int | None:
    return None if value < 0 else value


def _with_lag(place: Row, lag: int, size: int, remarks: list[Damage]) -> Iterator[Row]:
    """The row of a replica whose lag is known: -1 is that of one that the broker does not have or that is offline
    (ReplicaManager)."""
    if lag < -1:
        remarks.append(Damage(0, 0, None, "bad_response", f"an entry with a lag of {lag}: left out"))
    elif lag >= 0:
        yield {**place, "offset_lag": lag, "size_bytes": size}


@_reads("log_dirs")
def read_log_dirs(answer: Any, remarks: list[Damage]) -> Iterator[Row]:
    """kafka-log-dirs --describe: `size_bytes` of each replica, and `offset_lag`, which is how far its LEO is behind the
    partition's high watermark. It gives no LEO, which would need a high watermark of the same moment. Future
    replicas are left out."""
    for broker in answer.brokers:
        for folder in broker.log_dirs:
            if folder.error:
                remarks.append(Damage(0, 0, None, "error_code", f"broker {broker.broker}: a log directory failed"))
                continue
            for entry in (e for e in folder.partitions if not e.is_future):
                topic, _, partition = entry.partition.rpartition("-")
                number = int32_of(partition)
                if not topic or number is None:
                    remarks.append(Damage(0, 0, None, "bad_response", "an entry without a partition"))
                    continue
                place = {"broker_id": broker.broker, "topic": topic, "partition": number}
                yield from _with_lag(place, entry.offset_lag, entry.size, remarks)


@_reads("describe_log_dirs")
def read_describe_log_dirs(answer: Any, remarks: list[Damage]) -> Iterator[Row]:
    """DescribeLogDirsResponse: as `read_log_dirs`, for the broker that answered."""
    if _failed(answer, "the response", remarks):
        return
    for result in (r for r in answer.results if not _failed(r, "a log directory", remarks)):
        for topic in result.topics:
            for entry in (p for p in topic.partitions if not p.is_future_key):
                place = {"topic": topic.name, "partition": entry.partition_index}
                yield from _with_lag(place, entry.offset_lag, entry.partition_size, remarks)


@_reads("replica_log_info")
def read_replica_log_info(answer: Any, remarks: list[Damage]) -> Iterator[Row]:
    """GetReplicaLogInfoResponse (KIP-966; not in any release): LEO and epochs of the broker that answered."""
    for topic in answer.topic_partition_log_info_list:
        for entry in topic.partition_log_info:
            if _failed(entry, f"{topic.topic_id}-{entry.partition}", remarks):
                continue
            yield {
                "topic_id": topic.topic_id,
                "partition": entry.partition,
                "broker_epoch": answer.broker_epoch,
                "log_end_offset": _known(entry.log_end_offset),
                "last_written_leader_epoch": _known(entry.last_written_leader_epoch),
                "current_leader_epoch": _known(entry.current_leader_epoch),
            }


def read_describe_quorum(data: bytes) -> tuple[list[Row], list[Row], list[Damage]]:
    """DescribeQuorumResponse: (log_end_offsets rows of each replica, quorum_reports rows, damage)."""
    replicas: list[Row] = []

    def rows(answer: Any, remarks: list[Damage]) -> Iterator[Row]:
        for quorum in (p for t in answer.topics if t.topic_name == METADATA_TOPIC for p in t.partitions):
            if _failed(answer, "the response", remarks) or _failed(quorum, "the partition", remarks):
                continue
            for replica in (r for r in (*quorum.current_voters, *quorum.observers) if r.log_end_offset >= 0):
                place = {"broker_id": replica.replica_id, "topic": METADATA_TOPIC, "partition": quorum.partition_index}
                replicas.append({**place, "log_end_offset": replica.log_end_offset})
            yield {
                "leader_id": quorum.leader_id,
                "leader_epoch": quorum.leader_epoch,
                "high_watermark": _known(quorum.high_watermark),
                "voters": sorted({r.replica_id for r in quorum.current_voters}),
                "observers": sorted({r.replica_id for r in quorum.observers}),
            }

    reports, damage = _read(data, "describe_quorum", rows)
    # Each replica belongs to a report, so reports[0] exists.
    return [{**row, "position": reports[0]["position"]} for row in replicas], reports, damage


@_reads("describe_topic_partitions")
def read_describe_topic_partitions(answer: Any, remarks: list[Damage]) -> Iterator[Row]:
    """DescribeTopicPartitionsResponse: described_partitions rows."""
    for topic in (t for t in answer.topics if not _failed(t, f"topic {t.name}", remarks)):
        for described in topic.partitions:
            # A partition with LEADER_NOT_AVAILABLE or a similar error still has its complete state.
            yield {
                "topic": topic.name,
                "topic_id": None if topic.topic_id in (None, _NO_TOPIC_ID) else topic.topic_id,
                "partition": described.partition_index,
                "leader": described.leader_id,
                "leader_epoch": _known(described.leader_epoch),
                "replicas": described.replica_nodes,
                "isr": described.isr_nodes,
                "elr": described.eligible_leader_replicas,
                "last_known_elr": described.last_known_elr,
            }


@_reads("quorum_state")
def read_quorum_state(answer: Any, _: list[Damage]) -> Iterator[Row]:
    """A controller's quorum-state file (QuorumStateData): a quorum_reports row. Only version 0 names the voters."""
    voters = answer.current_voters
    yield {
        "quorum_cluster_id": answer.cluster_id or None,
        "leader_id": answer.leader_id,
        "leader_epoch": _known(answer.leader_epoch),
        "voted_id": answer.voted_id,
        "voters": None if voters is None else sorted(v.voter_id for v in voters),
    }


def read_prometheus(data: bytes, names: MetricNames, most_rows: int) -> tuple[list[Row], list[Damage]]:
    """Prometheus' HTTP API, query or query_range (vector, matrix): a log_end_offsets row with only `high_watermark` for
    each value of the metrics in names.high_watermark, with its own time. Of equal values in a row only the first and
    the last: those between bound nothing more.

    Series of one cluster from one exporter, which only their topic and partition distinguish; else damage as a whole,
    as for more than most_rows rows.
    """

    def rows(answer: Any, remarks: list[Damage]) -> Iterator[Row]:
        exporters: set[frozenset[tuple[str, str]]] = set()
        places: set[tuple[str, ...]] = set()
        count = 0
        for series in (s for s in answer.data.result if s.metric.get("__name__") in names.high_watermark):
            metric = series.metric["__name__"]
            of_place = names.high_watermark[metric]
            exporters.add(frozenset(pair for pair in series.metric.items() if pair[0] not in of_place))
            place = tuple(series.metric.get(label, "") for label in of_place)
            if place in places or len(exporters) > 1:
                message = 'series of several clusters or exporters: select one by its labels, as in {job="..."}'
                raise DecodeError("several_processes", message, 0)
            places.add(place)
            for at, value in _turns([series.value] if series.values is None else series.values):
                if (count := count + 1) > most_rows:
                    message = f"more than {most_rows} values (limits.text_file_lines): query fewer, or a longer step"
                    raise DecodeError("too_large", message, 0)
                try:
                    yield row_of(Sample(metric, series.metric, float(value), float(at)), HIGH_WATERMARK, names)
                except (ValueError, ArithmeticError) as error:
                    remarks.append(Damage(0, 0, None, "bad_response", f"a value of {metric}: {error}: left out"))
        if not places:
            message = "no metric of [metrics.high_watermark]: query one itself, without a function around it"
            remarks.append(Damage(0, 0, None, "bad_response", message))

    return _read(data, "prometheus", rows)


def _turns(samples: list[Any]) -> list[list[Any]]:
    """The samples, each a time in seconds and a value as text, without those between two of the same value."""
    for sample in samples:
        match sample:
            case [int() | float(), str()]:
                continue
        raise DecodeError("bad_response", "a series with something that is not a time and a value", 0)
    last = len(samples) - 1
    between = (0 < i < last and samples[i - 1][1] == s[1] == samples[i + 1][1] for i, s in enumerate(samples))
    return [sample for sample, is_between in zip(samples, between, strict=True) if not is_between]


def read_clean_shutdown(data: bytes) -> tuple[list[Row], list[Damage]]:
    """A broker's .kafka_cleanshutdown: a log_end_offsets row with its broker epoch and no partition. The file exists
    only between a clean stop and the next start; older releases leave it empty."""

    def rows(answer: Any, _: list[Damage]) -> Iterator[Row]:
        yield {"broker_epoch": _known(answer.broker_epoch)}

    return _read(data, "clean_shutdown", rows) if data.strip() else ([{"position": 0}], [])
