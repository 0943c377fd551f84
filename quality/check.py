"""What a check is: a SQL file whose rows break an expectation, with a comment at its head that says what is expected.

quality/checks/<table>/<name>.sql is a check of one table. One of quality/checks/shared/ is a check of each table that
its head names; {table}, {key} and the rules of quality/checks/tables.toml stand for the table's own. A second statement
gives figures to keep, met or not: their name and value.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from hashlib import sha256
from importlib.resources import files

import pyarrow as pa

SHARED, EVERY = "shared", "every table"
_FILES = files("quality")
_FIELD = re.compile(r"(?:^|; )(meaning|action|tables|kind|severity|scope|key): ", re.MULTILINE)
_TABLE = re.compile(r"\b(?:from|join) (\w+)")
_STEPS = re.compile(r"\b(?:follows|twice)\b")


class CheckKind(StrEnum):
    """What a check is about."""

    COMPLETENESS = "completeness"
    VALIDITY = "validity"
    CONSISTENCY = "consistency"
    COVERAGE = "coverage"
    RECONCILIATION = "reconciliation"
    AGREEMENT = "agreement"


# Kinds of checks whose violations are rows of their own table: a table without rows meets them.
OF_OWN_ROWS = (CheckKind.VALIDITY, CheckKind.AGREEMENT)


class Scope(StrEnum):
    """What a check must see at once. ROW: any rows of its table, and all of those without topic ids. TOPIC: all rows of
    some topics, of every table that has topic ids, and all of the others. CLUSTER: all rows of a cluster."""

    ROW = "row"
    TOPIC = "topic"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Values:
    """What a table is, and what its values must be (quality/checks/tables.toml)."""

    comment: str
    key: Sequence[str]
    append_only: bool = False
    in_order: bool = False
    topics: Sequence[str] = ()
    bounded: str = ""
    not_null: Sequence[str] = ()
    one_of: Mapping[str, Sequence[str]] = field(default_factory=dict)
    least: Mapping[str, int] = field(default_factory=dict)
    ordered: Sequence[tuple[str, str]] = ()
    constraints: Mapping[str, str] = field(default_factory=dict)

    @property
    def by_topic(self) -> bool:
        """Whether checks see the table topic by topic: its files are cut by the column topic_id."""
        return list(self.topics) == ["topic_id"]

    def in_sql(self, sql: str, table: str) -> str:
        """The SQL of a shared check for a table. {broken}: where a rule is broken; {why}: which ones. {twice}: keeps
        the rows whose key others may have, too."""
        rules = list(self._rules())
        key = [f'"{column}"' for column in self.key]
        words = {
            "{table}": table,
            "{key}": ", ".join(key),
            "{twice}": "where twice" if self.in_order else "",
            "{broken}": " or ".join(condition for _, condition in rules),
            "{why}": ", ".join(f"case when {condition} then '{wrong}' end" for wrong, condition in rules),
        }
        return _filled(sql, words)

    def _rules(self) -> Iterator[tuple[str, str]]:
        """What is wrong, and the SQL condition that finds it."""
        for name in self.not_null:
            yield f"{name} is null", f'"{name}" is null'
        for name, values in self.one_of.items():
            listed = ", ".join(f"'{value}'" for value in values)
            yield f"{name} is none of its values", f'"{name}" not in ({listed})'
        for name, least in self.least.items():
            yield f"{name} is below {least}", f'"{name}" < {least}'
        for low, high in self.ordered:
            yield f"{low} is above {high}", f'"{low}" > "{high}"'

    @property
    def meaning(self) -> str:
        parts = [f"{', '.join(self.not_null)}: not null"] if self.not_null else []
        parts += [f"{name}: one of {', '.join(values)}" for name, values in self.one_of.items()]
        for least in dict.fromkeys(self.least.values()):
            parts.append(f"{', '.join(name for name in self.least if self.least[name] == least)}: at least {least}")
        return "; ".join([*parts, *(f"{low} not above {high}" for low, high in self.ordered)]) + "."


@dataclass(frozen=True, slots=True)
class Check:
    """An expectation. name: unique in its table. meaning: what must hold. action: what to do where it does not. key:
    columns that name a violation. statements: the query whose rows are the violations (`why`: more about one), and
    maybe one for figures. shared: whether other tables have it, too."""

    table: str
    name: str
    kind: CheckKind
    meaning: str
    action: str
    key: tuple[str, ...]
    scope: Scope
    warns: bool
    statements: tuple[str, ...]
    shared: bool = False

    @property
    def full_name(self) -> str:
        return f"{self.table}.{self.name}"


@dataclass(slots=True)
class Outcome:
    """How often a check was broken. checked: rows of its table. sample: the first violations, as text. measured:
    figures to keep, met or not."""

    checked: int = 0
    broken: int = 0
    sample: list[str] = field(default_factory=list)
    measured: dict[str, float] = field(default_factory=dict)

    def merge(self, later: "Outcome", most: int) -> None:
        self.checked += later.checked
        self.broken += later.broken
        self.measured |= later.measured
        self.sample += later.sample[: max(0, most - len(self.sample))]


@cache
def values() -> dict[str, Values]:
    """What each table is, and what its values must be."""
    found = tomllib.loads((_FILES / "checks" / "tables.toml").read_text("utf-8"))
    return {table: Values(**about) for table, about in found.items()}


@cache
def checks() -> tuple[Check, ...]:
    """All checks, by table and name."""
    folders = [folder for folder in (_FILES / "checks").iterdir() if folder.is_dir()]
    sources = [(folder.name, file) for folder in folders for file in folder.iterdir() if file.name.endswith(".sql")]
    found = (
        check
        for folder, file in sources
        for check in parsed(folder, file.name.removesuffix(".sql"), file.read_text("utf-8"))
    )
    return tuple(sorted(found, key=lambda check: check.full_name))


def parsed(folder: str, name: str, text: str) -> Iterator[Check]:
    """The checks that a file makes. folder: a table, or `shared`.

    Errors: KeyError for a head without one of its fields, ValueError for a kind, severity or scope that there is not.
    """
    head, sql = _head_and_body(text)
    parts = _FIELD.split(head)
    about = {field: " ".join(value.split()) for field, value in zip(parts[1::2], parts[2::2], strict=True)}
    kind, scope, key = CheckKind(about["kind"]), Scope(about["scope"]), tuple(about["key"].split(", "))
    warns = ("error", "warn").index(about["severity"]) == 1
    check = Check(folder, name, kind, about["meaning"], about["action"], key, scope, warns, _statements(sql))
    if folder != SHARED:
        yield check
        return
    for table in values() if about["tables"] == EVERY else about["tables"].split(", "):
        own = values()[table]
        words = {"{key}": ", ".join(own.key), "{rules}": own.meaning}
        yield replace(
            check,
            table=table,
            meaning=_filled(check.meaning, words),
            key=tuple(dict.fromkeys(_filled(about["key"], words).split(", "))),
            scope=Scope.CLUSTER if scope is Scope.TOPIC and not own.by_topic else scope,
            statements=_statements(own.in_sql(sql, table)),
            shared=True,
        )


def ordered_for(checks: Iterable[Check]) -> set[str]:
    """The tables that are in order of which checks see each row with the one before or after it (quality/steps.py)."""
    queries = (query for check in checks for query in check.statements if _STEPS.search(query))
    return {name for query in queries for name in _TABLE.findall(query) if name in values() and values()[name].in_order}


@cache
def digests() -> dict[str, str]:
    """By name the query that makes a small table of large ones, which checks read like a table."""
    found = [(file.name.removesuffix(".sql"), file.read_text("utf-8")) for file in (_FILES / "digests").iterdir()]
    return {name: _head_and_body(text)[1] for name, text in found}


@cache
def reads_no_topic(digest: str) -> bool:
    """Whether a digest reads rows without a topic alone, as its head says."""
    return "-- rows: without a topic\n" in (_FILES / "digests" / f"{digest}.sql").read_text("utf-8")


def fingerprint(table: str) -> str:
    """Identifies what is expected of a table: it changes with its expectations' names, meanings and queries."""
    own = [check for check in checks() if check.table == table]
    return sha256("\n".join(map(repr, own)).encode()).hexdigest()[:16]


def digests_of(checks: Iterable[Check]) -> dict[str, str]:
    """The digests that checks read."""
    read = {name for check in checks for query in check.statements for name in _TABLE.findall(query)}
    return {name: query for name, query in digests().items() if name in read}


def needs_of(
    checks: Iterable[Check], schemas: Mapping[str, pa.Schema], digests: Iterable[str] = ()
) -> dict[str, tuple[str, ...]]:
    """As `columns_read`, of checks: each reads its own key, too, as the rows of its table are counted. digests: queries
    of those whose tables are read, too."""
    own = (text for c in checks for text in (*c.statements, f"{c.key} from {c.table}"))
    return columns_read((*own, *digests), schemas)


def columns_read(queries: Iterable[str], schemas: Mapping[str, pa.Schema]) -> dict[str, tuple[str, ...]]:
    """The columns that queries read, by table. A query is taken to read each column of its tables whose name it has; of
    a struct the fields that it names, as dotted paths. schemas: of the tables."""
    found: dict[str, dict[str, None]] = {}
    for query in queries:
        words = set(re.findall(r"\w+", query))
        for table in set(_TABLE.findall(query)) & schemas.keys():
            columns = [path for field in schemas[table] if field.name in words for path in _paths(field, query)]
            found.setdefault(table, {}).update(dict.fromkeys(columns or schemas[table].names[:1]))
    return {table: tuple(columns) for table, columns in found.items()}


def _paths(field: pa.Field, query: str) -> Sequence[str]:
    named = re.findall(rf"\b({field.name}\.\w+)", query) if pa.types.is_struct(field.type) else []
    return sorted(set(named)) or [field.name]


def _head_and_body(text: str) -> tuple[str, str]:
    lines = text.splitlines()
    head = [line.removeprefix("-- ") for line in lines if line.startswith("--")]
    return "\n".join(head), "\n".join(line for line in lines if not line.startswith("--"))


def _statements(sql: str) -> tuple[str, ...]:
    return tuple(statement.strip() for statement in re.split(r";\n", sql) if statement.strip())


def _filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(name, value)
    return text
