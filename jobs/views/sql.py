"""`sql`: run statements of Spark SQL that only read, one from the command line or many at a prompt.

The plan that Spark's own parser makes of a statement is walked before anything runs. Only the classes of read_only.toml
may occur in it: what a query can consist of, and the commands that show something. Everything else is refused, whether
this release of Spark has it or a later one adds it. Spark Connect gives its parser to no client: `for_a_server`.
"""

import re
import signal
import sys
import tomllib
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from functools import cached_property
from importlib.resources import files
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evidence.capture.remote import Location
from evidence.errors import KraftForensicsError, UsageError
from jobs.config.settings import is_remote, load_settings
from jobs.console.log import ERROR, show_message
from jobs.console.output import Format, print_rows
from jobs.console.run_log import one_line
from jobs.console.signals import StoppedError, go_on
from jobs.lake.lake import Lake, Row
from jobs.lake.tables import TABLES
from jobs.spark.session import build_session, with_store
from jobs.views.catalogue import needed, views
from jobs.views.in_spark import define, definitions

DATABASE = "default"
_PROMPT, _MORE = "sql> ", "...> "
_END = ("quit", "exit")
_NOT_FOUND = re.compile(r"table or view `([^`]+)` cannot be found")


class SqlError(KraftForensicsError):
    """Spark cannot run the statement."""


class ReadOnlySql:
    """Statements on the tables of one lake. The session starts with the first one. cluster: of its rows alone; if None
    and the lake has several, a message says so. Errors: LakeError if there is no lake, or no such cluster in it;
    SessionError if Spark cannot read its store."""

    def __init__(self, root: Location, cluster: str | None = None) -> None:
        self.lake, self.cluster = Lake(root), cluster
        self.lake.require()
        clusters = self.lake.clusters()
        if cluster is not None:
            self.lake.one_cluster(cluster)
        elif len(clusters) > 1:
            show_message(
                f"The tables have the rows of {len(clusters)} clusters: --cluster names one, or use cluster_id."
            )
        settings = load_settings().spark
        self.settings = settings if is_remote() else with_store(settings, self.lake.root)
        self.defined: set[str] = set()  # tables and views that have their names in the session

    @cached_property
    def spark(self) -> SparkSession:
        session = build_session(self.settings)
        if not is_remote():
            session.sparkContext.setLogLevel("OFF")  # an error is one line: SqlError
            forbid_reflection(session)
        return session

    def stop(self) -> None:
        """Stop what runs."""
        if is_remote():
            self.spark.interruptAll()
        else:
            self.spark.sparkContext.cancelAllJobs()

    def run(self, statement: str) -> tuple[list[str], list[Row]]:
        """The columns and rows of one statement; a `;` may end it.

        Errors: NotReadOnlyError, before anything runs, for a statement that does not only read; SqlError.
        """
        try:
            if is_remote():
                named, statement = for_a_server(statement)
            else:
                named = tables_of(self.spark, statement)
            wanted = needed(set(TABLES) | set(views()) if named is None else named) - self.defined
            if wanted:
                # A catalog that outlives the session has to stay as it is.
                is_own = not is_remote() and self.spark.conf.get("spark.sql.catalogImplementation") == "in-memory"
                database = DATABASE if is_own else None
                define(self.spark, definitions([self.lake], wanted, database, self.cluster), database)
                self.defined |= wanted
            frame = self.spark.sql(statement)
            return frame.columns, frame.toArrow().to_pylist()
        except (PySparkException, Py4JError) as error:
            raise SqlError(f"the query failed: {one_line(error)}{_alike(str(error))}") from error


def _alike(message: str) -> str:
    """The tables and views whose names are like the one that Spark has not found; it names columns alone."""
    missing = _NOT_FOUND.search(message)
    found = get_close_matches(missing[1], [*TABLES, *views()]) if missing else []
    return f" Did you mean {' or '.join(found)}?" if found else ""


def prompt(sql: ReadOnlySql, form: Format) -> None:
    """Read statements from stdin and print their results, until its end, `quit` or `exit`. A statement ends with `;` at
    the end of a line. An error does not end the prompt; it ends a script (stdin that is no terminal).

    Errors: of a script as ReadOnlySql.run.
    """
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        import readline  # noqa: F401  # input() then edits lines and has a history

        show_message(
            "One statement of Spark SQL at a time, ended with `;`. `show tables;` lists tables and views, `quit` ends."
        )
        _ = sql.spark
    for statement in _statements(input if is_terminal else lambda _: input(), is_terminal):
        try:
            print_rows(*sql.run(statement), form)
            sys.stdout.flush()
        except KraftForensicsError as error:
            if not is_terminal:
                raise
            show_message(str(error), ERROR)
        except StoppedError as stopped:
            _go_on_after(stopped, is_terminal)
            sql.stop()
            show_message("interrupted")


def _go_on_after(stopped: StoppedError, is_terminal: bool) -> None:
    """At a terminal Ctrl-C ends a statement, not the prompt."""
    if stopped.number != signal.SIGINT or not is_terminal:
        raise stopped
    go_on()


def _statements(read: Callable[[str], str], is_terminal: bool) -> Iterator[str]:
    """The statements in the lines that `read` returns for a prompt, until EOFError. At a terminal Ctrl-C discards a
    statement; if there is none, it ends the prompt."""
    lines: list[str] = []
    while True:
        try:
            lines.append(read(_MORE if lines else _PROMPT))
        except StoppedError as stopped:
            _go_on_after(stopped, is_terminal and bool(lines))
            show_message("")
            lines = []
            continue
        except EOFError:
            break
        text = "\n".join(lines).strip()
        if text.rstrip("; ").lower() in _END:
            return
        if not text or text.endswith(";"):
            lines = []
            if text.strip("; \n"):
                yield text
    if text := "\n".join(lines).strip():
        yield text


_SPARK = "org.apache.spark.sql."
_ALLOWED = tomllib.loads(files(__package__).joinpath("read_only.toml").read_text("utf-8"))
_ABOUT: dict[str, str] = _ALLOWED["about"]
# Functions that call any static method of a class.
_REFLECTION = ("reflect", "java_method", "try_reflect")


class NotReadOnlyError(UsageError):
    """The statement may change something."""


def tables_of(spark: SparkSession, statement: str) -> set[str] | None:
    """The names without a catalog or path that a statement reads, in lower case; None: it lists all tables.

    Errors: NotReadOnlyError for a statement that does not only read; Spark's ParseException.
    """
    parser = spark._jsparkSession.sessionState().sqlParser()
    found: set[str] = set()
    lists_all = False
    for kind, node in _nodes(parser.parsePlan(statement)):
        if not any(kind in kinds for kinds in _ALLOWED.values()):
            raise NotReadOnlyError(
                f"sql only reads, and {kind.rpartition('.')[2].rstrip('$')} is refused. "
                "Allowed are queries, SHOW, DESCRIBE and EXPLAIN of these."
            )
        lists_all = lists_all or kind in _ALLOWED["lists"]
        if kind in _ALLOWED["named"]:
            parts = node.multipartIdentifier()
            if parts.size() == 1:
                found.add(parts.head().lower())
    return None if lists_all else found


# What Spark's grammar allows where a query stands, and yet does more than read: functions that call Java, by name or by
# one that is put together, and rows that go through a program (`transform(...) using 'program'`).
_MORE_THAN_READS = re.compile(r"reflect|java_method|\bidentifier\b|\busing\b(?!\s*\()", re.IGNORECASE)
_SHOWS = re.compile(r"\s*(show|describe|desc)\b[^();]*", re.IGNORECASE)
_QUERY = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(explain\s+(?:(?:extended|codegen|cost|formatted)\s+)?)?"
    r"((?:\(|(?:select|with|values|table|from)\b).*)",
    re.IGNORECASE | re.DOTALL,
)


def for_a_server(statement: str) -> tuple[set[str] | None, str]:
    """What a server of Spark Connect is sent for a statement, after the tables and views that it may name (None: all).

    A query goes in parentheses: there the grammar of Spark 4.2 (SqlBaseParser.g4, `query`) has nothing that changes a
    table. Errors: NotReadOnlyError for what is not a query, SHOW, DESCRIBE or EXPLAIN of a query, and for
    `_MORE_THAN_READS`.
    """
    statement = statement.rstrip("; \n")
    if found := _MORE_THAN_READS.search(statement):
        raise NotReadOnlyError(
            f"sql only reads, and {found[0]} is refused on a server of Spark Connect: it may call more. Write joins "
            "with ON, and names as they are; or unset SPARK_REMOTE for this command."
        )
    if _SHOWS.fullmatch(statement):
        return None, statement
    query = _QUERY.fullmatch(statement)
    if query is None:
        raise NotReadOnlyError("sql only reads. Allowed are queries, SHOW, DESCRIBE and EXPLAIN of these.")
    named = {word.lower() for word in re.findall(r"\w+", query[2])}
    return named & (TABLES.keys() | views().keys()), f"{query[1] or ''}select * from (\n{query[2]}\n)"


def forbid_reflection(spark: SparkSession) -> None:
    """Remove the functions that can call any Java method from this session."""
    registry = spark._jsparkSession.sessionState().functionRegistry()
    jvm: Any = spark._jvm
    schema, catalog = (jvm.scala.Option.apply(name) for name in ("builtin", "system"))
    for name in _REFLECTION:
        registry.dropFunction(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name, schema, catalog))


def _nodes(plan: Any) -> Iterator[tuple[str, Any]]:
    """Each node of a plan, and of the plans in its expressions and below it, after the name of its class."""
    kind = plan.getClass().getName().removeprefix(_SPARK).removeprefix("catalyst.")
    yield kind, plan
    below = [*_elements(plan.children()), *_elements(plan.subqueries())]
    if kind == "plans.logical.UnresolvedWith":
        below += _elements(plan.innerChildren())
    if kind == "analysis.RelationTimeTravel":
        below.append(plan.relation())
    if kind in _ABOUT:
        below.append(getattr(plan, _ABOUT[kind])())
    for node in below:
        yield from _nodes(node)


def _elements(sequence: Any) -> list[Any]:
    """The elements of a Scala Seq."""
    return [sequence.apply(i) for i in range(sequence.size())]
