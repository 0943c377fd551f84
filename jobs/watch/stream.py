"""`watch`: metadata logs that grow, as a structured stream over `format("kraft")` (jobs/spark/kraft_source.py)."""

import json
import pkgutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from evidence.errors import KraftForensicsError
from evidence.kinds import METADATA_CHECKPOINT, METADATA_SEGMENT, checkpoint_name, classify
from evidence.text_files import read_properties
from jobs.collect.follow import Following
from jobs.config.settings import SparkSettings
from jobs.console.log import WARNING, show_message
from jobs.console.output import Row
from jobs.console.run_log import one_line
from jobs.spark.kraft_source import CutFile, read_rows
from jobs.spark.session import build_session
from jobs.watch.follower import DamagedLog, Follower, Tell, WatchError, folders_of, step, surviving_rows
from replay.live import Live


def load_hook(name: str) -> Callable[[Row], object]:
    """The function that `module:function` names. Errors: WatchError."""
    try:
        found = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise WatchError(f"--hook {name}: expected MODULE:FUNCTION: {error}") from error
    if not callable(found):
        raise WatchError(f"--hook {name}: is no function")
    return found


def watch_nodes(
    following: Following, folders: Sequence[Path], into: Path, settings: SparkSettings, tell: Tell, once: bool
) -> None:
    """As `watch`, over copies that are kept up to date meanwhile, and over some folders; once: that were first brought
    up to date. Errors: also UsageError."""
    places = [following.folder, *folders]
    with following:
        following.wait_for_all()
        if not once:
            while not _logs(following.folder, METADATA_SEGMENT):
                time.sleep(1)
            watch(places, into, settings, tell, following.every_s, once, following)
    if once:
        watch(places, into, settings, tell, following.every_s, once)


def watch(
    folders: Sequence[Path],
    into: Path,
    settings: SparkSettings,
    tell: Tell,
    every_s: float,
    once: bool,
    following: Following | None = None,
) -> None:
    """Follow the logs in some folders until a signal comes; once: up to what is there now. into: the folder of the
    watch, with its tables and what a restart needs. following: keeps copies; what was read of them may be deleted.

    Errors: WatchError for folders without a log, of several clusters, or a log that cannot be followed.
    """
    into.mkdir(parents=True, exist_ok=True)
    follower = Follower(into, begin(folders, *identity(folders)), lambda end: _reread(folders, end), tell)
    configure(folders, follower)
    if following is not None:
        following.read_up_to = follower.read_up_to
    session = build_session(settings)
    # A batch that has no rows is none, and takes no time of the next one.
    session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    session.conf.set("spark.sql.streaming.minBatchesToRetain", "10")
    try:
        before = failed = None
        # A query that runs once only finishes the batch that was begun before the process died, if there is one.
        while before != (before := _done(follower.checkpoint)):
            try:
                if not _followed(session, folders, follower, every_s, once):
                    show_message("a controller cut off its log; it is read again", WARNING)
                    follower.begin_anew()
            except (PySparkException, DamagedLog) as error:
                # A log that was cut while it was read looks damaged; a second time it does not.
                if failed == (failed := _done(follower.checkpoint)):
                    raise
                show_message(f"{one_line(error)}: it is tried once more", WARNING)
                before = None
    finally:
        session.stop()


def _done(checkpoint: Path) -> tuple[str, int]:
    """The last batch that Spark has noted as done; -1 before the first."""
    done = (int(file.name) for file in (checkpoint / "commits").glob("[0-9]*"))
    return checkpoint.name, max(done, default=-1)


def _followed(session: SparkSession, folders: Sequence[Path], follower: Follower, every_s: float, once: bool) -> bool:
    """Run the query until it ends; False if a file was cut off."""

    failed: list[KraftForensicsError] = []

    def process(batch: DataFrame, number: int) -> None:
        try:
            rows = batch.toArrow()
            if not folders_of(rows) <= follower.kept.ends.keys():
                configure(folders, follower)
            follower.process(rows, number)
        except KraftForensicsError as error:  # Spark makes text of it
            failed.append(error)
            raise

    places = json.dumps([str(folder) for folder in folders])
    # What one controller has deleted another one may have: the follower finds holes of the log itself.
    stream = session.readStream.format("kraft").options(paths=places, failOnDataLoss="false").load()
    writer = stream.writeStream.foreachBatch(process).option("checkpointLocation", str(follower.checkpoint))
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{every_s} seconds")
    query = writer.start()
    try:
        query.awaitTermination()
    except PySparkException as error:
        if failed:
            raise failed[0] from None
        if CutFile.__name__ in str(error):
            return False
        raise
    finally:
        query.stop()
    return True


def identity(folders: Sequence[Path]) -> tuple[str, dict[int, dict[str, str]]]:
    """(cluster id, node id -> server.properties) by the nearest files at each log, at most three folders above. Errors:
    WatchError."""
    clusters: set[str] = set()
    static: dict[int, dict[str, str]] = {}
    nodes: dict[str, Path] = {}
    for folder in folders:
        if not folder.is_dir():
            raise WatchError(f"{folder}: no folder. Give one that has the files of __cluster_metadata-0.")
        logs = {file.parent for file in _logs(folder, METADATA_SEGMENT)}
        if not logs:
            raise WatchError(f"{folder}: no segment of a metadata log in it. It is in the folder __cluster_metadata-0.")
        for log in sorted(logs):
            meta, server = (_nearest(log, name) for name in ("meta.properties", "server.properties"))
            clusters |= {meta["cluster.id"]} if "cluster.id" in meta else set()
            if len(clusters) > 1:
                names = ", ".join(sorted(clusters))
                raise WatchError(f"the folders are of several clusters: {names}. Watch them apart.")
            node = meta.get("node.id")
            if node is not None and nodes.setdefault(node, log) != log:
                raise WatchError(f"{log}: of node {node}, as {nodes[node]}. Give one log of each node.")
            if server.get("node.id", "").isdecimal():
                static[int(server["node.id"])] = server
    return next(iter(clusters), "unknown"), static


def _nearest(log: Path, name: str) -> dict[str, str]:
    """The properties file of that name that is nearest to a log; nothing without one."""
    files = (above / part / name for above in (log, *list(log.parents)[:3]) for part in ("", "config"))
    return next((read_properties(file.read_bytes()) for file in files if file.is_file()), {})


def begin(folders: Sequence[Path], cluster: str, static: dict[int, dict[str, str]]) -> Live:
    """The state to begin with: that of the newest snapshot, if the log's begin was deleted. Errors: WatchError."""
    segments = [file for folder in folders for file in _logs(folder, METADATA_SEGMENT)]
    first = min(int(file.stem) for file in segments if file.stem.isdecimal())
    live = Live(cluster, static=static)
    if first == 0:
        return live
    snapshots = [file for folder in folders for file in _logs(folder, METADATA_CHECKPOINT)]
    named = [(place, file) for file in snapshots if (place := checkpoint_name(file.name)) and place[0] >= first]
    if not named:
        raise WatchError(f"the log begins at offset {first}, and there is no snapshot from which to go on")
    (end, epoch), file = max(named, key=lambda each: each[0])
    rows = read_rows([str(file)])
    at, epochs = pa.array([end - 1] * len(rows), pa.int64()), pa.array([epoch] * len(rows), pa.int32())
    for name, values in (("offset", at), ("batch_base_offset", at), ("epoch", epochs)):
        rows = rows.set_column(rows.schema.get_field_index(name), name, values)
    live, _, _ = step(live, rows, "checkpoint")
    return live


def configure(folders: Sequence[Path], follower: Follower) -> None:
    """Use nodes' files as they are now. No vote counts the log of a broker alone (KIP-595). Errors: WatchError for logs
    of another cluster than is followed."""
    cluster, static = identity(folders)
    if follower.kept.live.cluster_id != cluster:
        raise WatchError(f"{follower.folder}: follows cluster {follower.kept.live.cluster_id}, not {cluster}")
    logs = {file.parent for folder in folders for file in _logs(folder, METADATA_SEGMENT)}
    roles = {str(log): _nearest(log, "server.properties").get("process.roles", "controller") for log in logs}
    follower.configure(static, {log for log, named in roles.items() if "controller" not in named})


def _reread(folders: Sequence[Path], end: int) -> tuple[Live, pa.Table]:
    return begin(folders, *identity(folders)), rows_before(folders, end)


def rows_before(folders: Sequence[Path], end: int) -> pa.Table:
    """The rows of the logs before an offset, each offset once, of its highest epoch."""
    rows = read_rows([str(folder) for folder in folders], endOffset=str(end))
    return surviving_rows(rows.filter(rows["snapshot_end_offset"].is_null()))


def _logs(folder: Path, kind: str) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file() and classify(PurePosixPath(file)) == kind)
