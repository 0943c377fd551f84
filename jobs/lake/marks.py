"""A table of the lake at one version, as its log names it: its files, and the chain that its commits make. Each commit
of a cluster's rows names the one before it and the files that it adds.

The mark is in the commit's user metadata, so rows and mark are one commit (docs/adr/0002-marks-in-commits.md). `link`
is the SHA-256 of all of it, the previous link included. A commit that another program makes has no mark, and leaves
other files than the newest mark names (docs/reliability.md).

Each commit also names the version of the cluster's rows that the new ones were worked out from (`Lake.commit`), so of
two runs at once none overwrites or repeats what the other has committed. Whoever comes second starts its stage anew
(`undisturbed`).
"""

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, wraps
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import pyarrow as pa

from jobs.console.version import tool_version
from jobs.lake.data_files import DataFile, Row
from jobs.lake.storage import LakeError
from jobs.lake.tables import CLUSTER_ID, INGESTED, LAYOUT, STAGES, TABLES

if TYPE_CHECKING:
    from deltalake import DeltaTable

Stamp = tuple[int, ...]
Given = ParamSpec("Given")
Result = TypeVar("Result")
# Commits without a mark that this program makes, and that leave the rows as they are.
OWN_OPERATIONS = ("CREATE TABLE", "ADD CONSTRAINT", "SET TBLPROPERTIES")
_NEWEST = 20  # commits to look through before more of them are read
_ROUNDS, _LONGEST_PAUSE_S = 20, 1.0


class ChangedTableError(LakeError):
    """Another program has changed a cluster's rows of a table."""


class ChangedMeanwhileError(LakeError):
    """Another run has changed rows of the same cluster."""


class OtherReleaseError(LakeError):
    """Another release of this program wrote the lake."""

    exit_code = 5


@dataclass(frozen=True, slots=True)
class ChainHead:
    """The end of a cluster's chain in one table. version: Lake.cluster_version. made: metadata of its newest commit.
    problem: why the table is not what that commit left; None if it is."""

    version: int
    made: Row = field(default_factory=dict)
    problem: str | None = None

    @property
    def link(self) -> str | None:
        """None: there is no commit."""
        return self.made.get("link")

    @property
    def id(self) -> str:
        """Identifies the rows: the version and the beginning of the link. A commit that only puts rows into other files
        (jobs/custody/maintain.py) has the id of the one before it."""
        return self.made.get("rows_of") or f"{self.version}:{(self.link or '')[:16]}"


def writer() -> str:
    """The name and version of this program."""
    return f"kraft-forensics {tool_version()}"


def files_digest(files: Iterable[str]) -> str:
    """A digest of a set of files, each as text (DataFile.text)."""
    return sha256("\n".join(sorted(files)).encode()).hexdigest()


def marked(metadata: Mapping[str, Any], mark: Mapping[str, Any]) -> Row:
    """A commit's metadata with its mark and link.

    mark: `table`; `version`; `previous` link or null; `files`: files_digest after the commit; `added`: SHA-256 by file
    name; `removed`: file names; `kept`: number of other files; `layout`: of the tables.
    """
    whole = {**metadata, "mark": {**mark, "writer": writer(), "layout": LAYOUT}}
    return {**whole, "link": link_of(whole)}


def link_of(metadata: Mapping[str, Any]) -> str:
    """SHA-256 of a commit's metadata, its link left out."""
    rest = {name: value for name, value in metadata.items() if name != "link"}
    return sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def metadata_of(commit: Row) -> Row:
    """The metadata that `Lake.commit` gave a commit; empty for other commits."""
    text = commit.get("userMetadata")
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) and found.keys() >= {CLUSTER_ID, "mark"} else {}


class OpenedTable:
    """A table at the version at which it was opened. What is read of its log is read once: in a store every commit
    costs a request. stamp: tells this state of its log from any other; None: it may have changed already."""

    def __init__(self, name: str, delta: "DeltaTable", stamp: Stamp | None) -> None:
        self.name, self.delta, self.stamp = name, delta, stamp
        self._versions: dict[str, int] = {}
        self._commits: list[Row] = []
        self._has_all_commits = False

    @cached_property
    def listed(self) -> list[Row]:
        """The table's files, as its log names them."""
        return pa.table(self.delta.get_add_actions(flatten=True)).to_pylist()

    def files(self, cluster_id: str) -> list[DataFile]:
        """The files of a cluster."""
        key = TABLES[self.name].bounds
        return [
            DataFile(a["path"], a["size_bytes"], a["num_records"] or 0, a.get(f"min.{key}"), a.get(f"max.{key}"))
            for a in self.listed
            if a.get(f"partition.{CLUSTER_ID}") == cluster_id
        ]

    def cluster_version(self, cluster_id: str) -> int:
        """How often a cluster's rows were changed; 0 for never. It is the version of the Delta application transaction
        that has the cluster's id."""
        if cluster_id not in self._versions:
            self._versions[cluster_id] = self.delta.transaction_version(cluster_id) or 0
        return self._versions[cluster_id]

    def commits(self) -> Iterator[Row]:
        """The commitInfo of every commit, newest first, with its `version`. Those of later versions may come, too."""
        done = 0
        for most in (_NEWEST, 20 * _NEWEST, None):  # the log is read from its end
            if len(self._commits) == done and not self._has_all_commits:
                self._commits = self.delta.history(most)
                self._has_all_commits = len(self._commits) != most
            yield from self._commits[done:]
            done = len(self._commits)
            if self._has_all_commits:
                return

    def head(self, cluster_id: str) -> ChainHead:
        """The newest commit of the cluster's rows, and whether the table still is what that commit left. Reads no
        rows."""
        version, others = self.cluster_version(cluster_id), list[Row]()
        for commit in self.commits():
            made = metadata_of(commit)
            if made.get(CLUSTER_ID) == cluster_id:
                if made["mark"]["version"] <= version:
                    break
                continue  # delta-rs reads the log anew: another process has committed since the table was opened
            if not made and commit.get("operation") not in OWN_OPERATIONS:
                others.append(commit)
        else:
            made = {}
        texts, problem = [file.text for file in self.files(cluster_id)], None
        by = author(others[0]) if others else "its log was edited"
        if not made:
            return ChainHead(version, made, by if texts else None)
        if link_of(made) != made.get("link") or made["mark"]["version"] != version:
            problem = "its newest mark was edited"
        elif files_digest(texts) != made["mark"]["files"]:
            problem = by
        return ChainHead(version, made, problem)


def require_layout(root: object, commits: Iterable[Row]) -> None:
    """Check that a table's newest commit names the layout of this program. Errors: OtherReleaseError."""
    made = next(filter(None, map(metadata_of, commits)), {})
    if made and made["mark"].get("layout") != LAYOUT:
        raise OtherReleaseError(
            f"{root}: this lake is of another release ({made['mark']['writer']}): its tables have the layout "
            f"{made['mark'].get('layout')}, those of this program {LAYOUT}. Make a new lake and ingest the captures "
            "again: it needs nothing else. Acknowledgements stay in this one."
        )


def author(commit: Row) -> str:
    """What made a commit, e.g. `version 7: DELETE by delta-rs:py-1.6.6`."""
    by = commit.get("engineInfo") or commit.get("clientVersion") or "an unknown program"
    return f"version {commit.get('version', '?')}: {commit.get('operation', 'a commit')} by {by}"


def stage_of(table: str) -> str | None:
    """The stage that writes a table; None for those that keep what commands record."""
    return next((stage for stage, tables in STAGES.items() if table in tables), None)


def changed(root: object, table: str, cluster_id: str, problem: str) -> ChangedTableError:
    """The error for a table that is not what its newest commit left."""
    stage = stage_of(table)
    if table in INGESTED or stage is None:
        what = "It holds evidence, so it is not used" if stage else "Nothing makes it again"
        advice = f"{what}: `kraft-forensics verify` shows what is different, `verify --adopt` accepts the same rows."
    else:
        advice = f"`kraft-forensics {stage}` makes it again."
    return ChangedTableError(f"{root}: {table} of {cluster_id} was changed by another program ({problem}). {advice}")


def undisturbed(stage: Callable[Given, Result]) -> Callable[Given, Result]:
    """A decorator: the stage is called again when another run has changed its rows meanwhile. Errors:
    ChangedMeanwhileError if other runs disturbed all of its attempts."""

    @wraps(stage)
    def repeated(*arguments: Given.args, **named: Given.kwargs) -> Result:
        for _ in range(_ROUNDS - 1):
            with suppress(ChangedMeanwhileError):
                return stage(*arguments, **named)
            time.sleep(random.uniform(0, _LONGEST_PAUSE_S))
        return stage(*arguments, **named)

    return repeated
