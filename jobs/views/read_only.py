"""Check that a statement of Spark SQL only reads, by the plan that Spark's own parser makes of it.

The plan is walked before anything runs. Only the classes of read_only.toml may occur in it: what a query can
consist of, and the commands that show something. Everything else is refused, whether this release of Spark has it or a
later one adds it.
"""

import tomllib
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from pyspark.sql import SparkSession

from evidence.errors import KraftForensicsError

_SPARK = "org.apache.spark.sql."
_ALLOWED = tomllib.loads(files(__package__).joinpath("read_only.toml").read_text("utf-8"))
_ABOUT: dict[str, str] = _ALLOWED["about"]
# Functions that call any static method of a class.
_REFLECTION = ("reflect", "java_method", "try_reflect")


class NotReadOnlyError(KraftForensicsError):
    """The statement may change something."""

    exit_code = 2


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
