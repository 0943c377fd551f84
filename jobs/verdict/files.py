"""The files of a lake's verdicts: verdict-<cluster>.json for each cluster, and verdict.json, the index over them."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from evidence.capture.remote import Location, Remote, location
from evidence.errors import KraftForensicsError
from jobs.console.version import tool_version
from jobs.lake.lake import Row
from jobs.lake.storage import delete, first_bytes, write_whole
from jobs.report.page import HEAD_BYTES, fingerprint_in
from jobs.report.stage import file_of

_INDEX_BYTES = 1 << 26
# Worst first: the index has the worst of its clusters.
_VALID: tuple[bool | str, ...] = (False, "unknown", True)


class VerdictFiles:
    """Where the verdicts of a lake's clusters are written. index: the file of the index, e.g. <lake>/verdict.json; the
    clusters' documents are beside it. clusters: all clusters of the lake.

    A device or a pipe gets the documents themselves, one after the other, and no index.
    """

    def __init__(self, index: Location, clusters: Sequence[str]) -> None:
        self.index = index
        self.clusters = clusters

    def file_of(self, cluster: str) -> Location:
        """The file of a cluster."""
        return self.index if _is_stream(self.index) else file_of(self.index, cluster)

    def write(self, found: Row) -> Location:
        """Write a cluster's document, bring the index up to date, and delete what is stale: documents and reports of
        clusters that the lake no longer has, and reports that have moved. Returns where the document is.

        Errors: KraftForensicsError if a file cannot be written."""
        target = self.file_of(found["cluster_id"])
        if isinstance(target, Path) and _is_stream(target):
            with target.open("a", encoding="ascii") as stream:
                stream.write(json.dumps(found, indent=2) + "\n")
            return target
        write_verdict(found, target)
        before = self._entries()
        entries = {cluster: before[cluster] for cluster in self.clusters if cluster in before}
        entries[found["cluster_id"]] = self._entry(found)
        rows = [entries[cluster] for cluster in sorted(entries)]
        valid = next(value for value in _VALID if any(row["valid"] == value for row in rows))
        write_verdict({"valid": valid, "tool_version": tool_version(), "clusters": rows}, self.index)
        for cluster in before.keys() - entries.keys():
            delete(self.file_of(cluster))
        for page in {row["report"] for row in before.values()} - {row["report"] for row in rows}:
            if (whole := self._page(page)) is not None:
                delete(location(whole))
        return target

    def report_of(self, cluster: str) -> str | None:
        """Where the index says that a cluster's report is; None if it names none, or no report is there."""
        return self._page(self._entries().get(cluster, {}).get("report"))

    def _entry(self, found: Row) -> Row:
        name = str(self.file_of(found["cluster_id"])).rpartition("/")[2]
        return {
            "cluster_id": found["cluster_id"],
            "valid": found["valid"],
            "answer": next(iter(found["answer"]["text"]), None),
            "verdict": name,
            "report": found["report"] and found["report"].removeprefix(f"{self._folder}/"),
            "log": found["log"],
            "status": {name: found["status"][name] for name in ("new", "known", "acknowledged")},
        }

    @property
    def _folder(self) -> str:
        return str(self.index.url if isinstance(self.index, Remote) else self.index.absolute()).rpartition("/")[0]

    def _page(self, named: str | None) -> str | None:
        """Where a page is that the index names, None without one there. One in the index's folder is named relative to
        that, so that both can be moved."""
        if named is None:
            return None
        page = named if named.startswith("/") or "://" in named else f"{self._folder}/{named}"
        return page if fingerprint_in(first_bytes(location(page), HEAD_BYTES)) is not None else None

    def _entries(self) -> dict[str, Row]:
        """The entries of the index as it is; none if there is no index, or another file in its place."""
        with suppress(ValueError, KeyError, TypeError):
            found = json.loads(first_bytes(self.index, _INDEX_BYTES))
            rows = [row for row in found["clusters"] if isinstance(row, Mapping)]
            return {str(row["cluster_id"]): {**row, "report": row.get("report")} for row in rows}
        return {}


def write_verdict(found: Row, path: Location) -> None:
    """Write a document completely or not at all. Errors: KraftForensicsError if it cannot be written."""
    try:
        # json.dumps writes ASCII, so a captured name cannot control a terminal.
        write_whole(path, json.dumps(found, indent=2) + "\n")
    except OSError as error:
        raise KraftForensicsError(
            f"{path}: cannot be written: {error.strerror or error}. Name another file with --verdict."
        ) from error


def _is_stream(path: Location) -> bool:
    """Whether it is a pipe or a device, also one like /dev/stdout that stands for a file."""
    if not isinstance(path, Path):
        return False
    return path.is_relative_to("/dev") or (path.exists() and not path.is_file() and not path.is_dir())
