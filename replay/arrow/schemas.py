"""Arrow schemas of everything that `replay` produces, from schemas.toml. Null means "not known from the evidence"."""

import tomllib
from importlib.resources import files

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import sort_order, whole

INT32_LIST = pa.list_(pa.int32())
_COLUMNS = tomllib.loads(files("replay.arrow").joinpath("schemas.toml").read_text("utf-8"))


def column(name: str, dtype: pa.DataType, comment: str) -> pa.Field:
    """A nullable Arrow field that carries its documentation; the comment becomes the Delta column's comment."""
    return pa.field(name, dtype, metadata={"comment": comment})


def _fields(table: str) -> list[pa.Field]:
    found: dict[str, pa.Field] = {}
    for name, given in _COLUMNS[table].items():
        if given == "*":
            found |= {each.name: each for each in _fields(name) if each.name not in found}
        else:
            found[name] = column(name, _type(given[0]), given[1]) if given[1:] else pa.field(name, _type(given[0]))
    return list(found.values())


def _struct(group: str) -> pa.StructType:
    return pa.struct([(each.name, each.type) for each in _fields(group)])


def _type(name: str) -> pa.DataType:
    if name.endswith("[]"):
        return pa.list_(_type(name[:-2]))
    return _struct(name) if name in _COLUMNS else pa.type_for_alias(name)


def schema(table: str) -> pa.Schema:
    """The schema of a table of schemas.toml."""
    return pa.schema(_fields(table))


PARTITION_HISTORY = schema("partition_history")
FEATURE_HISTORY = schema("feature_history")
CONFIG_HISTORY = schema("config_history")
QUORUM_HISTORY = schema("quorum_history")
BROKER_HISTORY = schema("broker_history")
CLUSTER_METRICS = schema("cluster_metrics")
ELECTIONS = schema("elections")
COUNTERFACTUALS = schema("counterfactuals")
FINDINGS = schema("findings")
RULE_DIFFERENCES = schema("rule_differences")
TOPIC_EVENTS = schema("topic_events")
STATEMENT, EVIDENCE_ROW, PREDICTED_STATE = (_struct(name) for name in ("statement", "evidence_row", "predicted_state"))
ELECTION_PREDICTION = _struct("election_prediction")
PARTITION, PROVENANCE = _fields("partition"), _fields("provenance")
PARTITION_KEY = ["topic_id", "partition"]
# The columns that locate a record: those of PROVENANCE, and the same with the base offset of the record's batch.
PROVENANCE_NAMES = tuple(field.name for field in PROVENANCE)
BATCH_AND_PROVENANCE = ("batch_base_offset", *PROVENANCE_NAMES)
# The same texts in millions of rows: as codes, they take little time and memory.
CODES = pa.dictionary(pa.int32(), pa.string())
_CODED = frozenset(field.name for field in PROVENANCE if pa.types.is_string(field.type))


def coded(schema: pa.Schema) -> pa.Schema:
    """The schema, with the texts of PROVENANCE dictionary-encoded."""
    return pa.schema([field.with_type(CODES) if field.name in _CODED else field for field in schema])


CHANGES = coded(schema("changes"))
LIST_COLUMNS = ("replicas", "isr", "elr", "last_known_elr", "removing_replicas", "adding_replicas", "directories")


def sorted_history(history: pa.Table) -> pa.Table:
    """Sort PARTITION_HISTORY rows by topic id, partition and offset, the order that vectorised code requires."""
    history = pa.table([whole(column) for column in history.columns], schema=history.schema)
    topics = whole(history["topic_id"]).dictionary_encode()
    topic = pc.rank(topics.dictionary).to_numpy().astype(np.int64)[topics.indices.to_numpy()]
    keys = (topic, *(history[name].to_numpy() for name in ("partition", "offset")))
    in_order = np.ones(max(len(history) - 1, 0), dtype=bool)
    for key in reversed(keys):
        in_order = (key[1:] > key[:-1]) | ((key[1:] == key[:-1]) & in_order)
    return history if in_order.all() else history.take(pa.array(sort_order(*keys))).combine_chunks()
