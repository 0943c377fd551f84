"""`sql`: run statements of Spark SQL that only read, one from the command line or many at a prompt."""

import signal
import sys
from collections.abc import Callable, Iterator
from functools import cached_property

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evidence.capture.remote import Location
from evidence.errors import KraftForensicsError
from jobs.config.settings import load_settings
from jobs.console.log import ERROR, log
from jobs.console.output import Format, print_rows, show_message
from jobs.console.run_log import one_line
from jobs.console.signals import StoppedError, go_on
from jobs.lake.lake import Lake, Row
from jobs.lake.tables import TABLES
from jobs.spark.session import SessionError, build_session, check_store
from jobs.spark.tasks import is_remote
from jobs.views.catalogue import needed, views
from jobs.views.in_spark import define_views
from jobs.views.read_only import forbid_reflection, tables_of

DATABASE = "default"
_PROMPT, _MORE = "sql> ", "...> "
_END = ("quit", "exit")


class SqlError(KraftForensicsError):
    """Spark cannot run the statement."""


class ReadOnlySql:
    """Statements on the tables of one lake. The session starts with the first one. cluster: of its rows alone; if None
    and the lake has several, a message says so. Errors: LakeError if there is no lake, or no such cluster in it;
    SessionError if Spark cannot read its store."""

    def __init__(self, root: Location, cluster: str | None = None) -> None:
        if is_remote():
            raise SessionError(
                "sql: Spark's own parser tells which statements only read, and Spark Connect gives it to no client. "
                "Unset SPARK_REMOTE for this command, or use `kraft_forensics.open(spark, lake)` in your own session."
            )
        self.lake, self.cluster = Lake(root), cluster
        self.lake.require()
        clusters = self.lake.clusters()
        if cluster is not None:
            self.lake.one_cluster(cluster)
        elif len(clusters) > 1:
            show_message(
                f"The tables have the rows of {len(clusters)} clusters: --cluster names one, or use cluster_id."
            )
        self.settings = load_settings().spark
        check_store(self.lake.root, self.settings)
        self.defined: set[str] = set()  # tables and views that have their names in the session

    @cached_property
    def spark(self) -> SparkSession:
        session = build_session(self.settings)
        session.sparkContext.setLogLevel("OFF")  # an error is one line: SqlError
        forbid_reflection(session)
        return session

    @property
    def _database(self) -> str | None:
        """Where tables and views get their names: a catalog that outlives the session has to stay as it is."""
        catalog = self.spark.conf.get("spark.sql.catalogImplementation")
        return DATABASE if catalog == "in-memory" else None

    def run(self, statement: str) -> tuple[list[str], list[Row]]:
        """The columns and rows of one statement; a `;` may end it.

        Errors: NotReadOnlyError, before anything runs, for a statement that does not only read; SqlError.
        """
        try:
            named = tables_of(self.spark, statement)
            wanted = needed(set(TABLES) | set(views()) if named is None else named) - self.defined
            if wanted:
                define_views(self.spark, [self.lake], wanted, self._database, self.cluster)
                self.defined |= wanted
            frame = self.spark.sql(statement)
            return frame.columns, frame.toArrow().to_pylist()
        except (PySparkException, Py4JError) as error:
            raise SqlError(f"the query failed: {one_line(error)}") from error


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
            log(str(error), ERROR)
        except StoppedError as stopped:
            _go_on_after(stopped, is_terminal)
            sql.spark.sparkContext.cancelAllJobs()
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
