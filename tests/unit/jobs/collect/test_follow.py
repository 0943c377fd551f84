"""Copies of nodes' metadata logs that are kept up to date, through the shells that nodes have."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from evidence.errors import KraftForensicsError
from jobs.collect.follow import LOCK, Following
from jobs.collect.frames import PIECE_BYTES
from jobs.collect.session import shell
from jobs.collect.targets import Target, parse_node
from tests.support.nodes import SHELLS, nodes, program, reached_by, state
from tests.support.paths import ROOT

LOG = "__cluster_metadata-0"
FIRST, SECOND = f"{0:020d}.log", f"{1000:020d}.log"


def node(folder: Path, logged: bytes = b"batches") -> Path:
    """A controller's folder, made up: properties, and a log directory with a metadata log."""
    (folder / "data" / LOG).mkdir(parents=True)
    (folder / "server.properties").write_text(f"node.id=7\nlog.dirs={folder}/data\nssl.key.password=s3cret\n")
    (folder / "data" / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=7\n")
    (folder / "data" / LOG / FIRST).write_bytes(logged)
    (folder / "data" / LOG / "quorum-state").write_text('{"leaderId":7}')
    return folder


def targets(at: Iterable[str]) -> list[Target]:
    return [parse_node(text) for text in at]


def following(folder: Path, copies: Path, via: str | None = None, **more: Any) -> Following:
    at = "local:" if via is None else "via:host:"
    given = {"every_s": 0.05, "silence_s": 20.0, "say": lambda line: None, **more}
    return Following(targets([f"7={at}{folder}"]), via, copies, **given)


class Rounds:
    """One node, asked when `ask` is called."""

    def __init__(self, kept: Following) -> None:
        self.kept = kept
        self.place = kept.folder / "node-7"
        self.place.mkdir(parents=True, exist_ok=True)
        self.context = shell(kept.targets[0].command(kept.via))

    def __enter__(self) -> "Rounds":
        self.process = self.context.__enter__()
        pipes = self.process.stdin, self.process.stdout
        self.rounds = iter(self.kept._rounds(self.kept.targets[0], self.place, *pipes))
        return self

    def __exit__(self, *error: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()  # a shell that waits for more is ended after 2 s
        self.context.__exit__(None, None, None)

    def ask(self) -> None:
        next(self.rounds)


def counting(folder: Path, inner: str = "") -> tuple[str, Path]:
    """A command for --via, and the file to which it appends whatever the node sends."""
    counted = folder / "sent"
    counter = program(folder / "counting", f'{inner} "$@" | tee -a {counted}')
    return f"env NODE={{host}} {counter}", counted


def wait_for(happened: Callable[[], bool]) -> None:
    for _ in range(3000):
        if happened():
            return
        time.sleep(0.02)
    raise AssertionError("it did not happen within a minute")


def copied(copies: Path) -> dict[str, bytes]:
    place = copies / "node-7" / "logdir0" / LOG
    return {path.name: path.read_bytes() for path in place.iterdir()}


def logged(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "data" / LOG).iterdir()}


@pytest.mark.parametrize("name", SHELLS)
def test_copies_are_those_of_a_controller_through_every_shell(name: str, tmp_path: Path) -> None:
    folder = nodes(tmp_path / "source", (3000,))[3000]
    before = state(tmp_path / "source")
    via = reached_by(name, tmp_path / "bin")
    kept = Following(targets([f"3000=via:host:{folder}"]), via, tmp_path / "copies", 0.05, 20, print)
    with kept:
        kept.wait_for_all()
    assert state(tmp_path / "source") == before
    wanted = {
        path: digest
        for path, (digest, _) in state(folder).items()
        if path.endswith((".log", ".checkpoint", "quorum-state", "leader-epoch-checkpoint", "partition.metadata"))
        and path.startswith(LOG)
    }
    came = state(tmp_path / "copies" / "node-3000" / "logdir0")
    assert {path: came[path][0] for path in wanted} == wanted


@pytest.mark.parametrize("name", SHELLS)
def test_only_new_bytes_are_sent(name: str, tmp_path: Path) -> None:
    folder = node(tmp_path / "node", os.urandom(2 * PIECE_BYTES + 12_345))
    log = folder / "data" / LOG / FIRST
    via, counted = counting(tmp_path, reached_by(name, tmp_path / "bin").replace("{host}", "host"))
    with Rounds(following(folder, tmp_path / "copies", via)) as asked:
        asked.ask()
        assert copied(tmp_path / "copies") == logged(folder)
        for size in (1, 4_095, 4_096, 9_000, 0):
            before = counted.stat().st_size
            with log.open("ab") as file:
                file.write(os.urandom(size))
            asked.ask()
            assert copied(tmp_path / "copies") == logged(folder)
            assert counted.stat().st_size - before < size + 200


def test_a_snapshot_and_small_files(tmp_path: Path) -> None:
    folder = node(tmp_path / "node")
    snapshot = folder / "data" / LOG / f"{500:020d}-{3:010d}.checkpoint"
    with Rounds(following(folder, tmp_path / "copies")) as asked:
        asked.ask()
        properties = tmp_path / "copies" / "node-7" / "server.properties"
        assert "s3cret" not in properties.read_text()
        snapshot.write_bytes(os.urandom(100_000))
        (folder / "data" / LOG / "quorum-state").write_text('{"leaderId":8}')
        with (folder / "server.properties").open("a") as file:
            file.write("min.insync.replicas=2\nsasl.jaas.config=s3cret\n")
        asked.ask()
    assert copied(tmp_path / "copies") == logged(folder)
    assert "min.insync.replicas=2\n" in properties.read_text()
    assert "s3cret" not in properties.read_text()


def test_a_metadata_log_with_a_directory_of_its_own(tmp_path: Path) -> None:
    folder = node(tmp_path / "node")
    (folder / "data").rename(folder / "meta data")
    for name in ("one", "two"):
        (folder / name).mkdir()
        (folder / name / "meta.properties").write_text("node.id=7\n")
    (folder / "server.properties").write_text(
        f"node.id=7\nlog.dirs={folder}/one,{folder}/two\nmetadata.log.dir={folder}/meta data\n"
    )
    with Rounds(following(folder / "server.properties", tmp_path / "copies")) as asked:
        asked.ask()
        with (folder / "meta data" / LOG / FIRST).open("ab") as file:
            file.write(b"more")
        asked.ask()
    copies = tmp_path / "copies" / "node-7"
    assert (copies / "metadata" / LOG / FIRST).read_bytes() == b"batchesmore"
    assert {path.name for path in copies.iterdir()} == {"metadata", "server.properties"}


@pytest.mark.parametrize(("read", "left"), [(None, True), (999, True), (1000, False)])
def test_what_the_node_deleted_goes_only_when_it_was_read(read: int | None, left: bool, tmp_path: Path) -> None:
    folder = node(tmp_path / "node")
    read_up_to = None if read is None else lambda _: read
    with Rounds(following(folder, tmp_path / "copies", read_up_to=read_up_to)) as asked:
        asked.ask()
        for name in (SECOND, f"{900:020d}-{3:010d}.checkpoint", f"{1000:020d}-{3:010d}.checkpoint"):
            (folder / "data" / LOG / name).write_bytes(b"x")
        (folder / "data" / LOG / FIRST).unlink()
        (folder / "data" / LOG / f"{900:020d}-{3:010d}.checkpoint").unlink()
        asked.ask()
        asked.ask()
    assert (FIRST in copied(tmp_path / "copies")) == left
    # Without a later one, the last stays: somebody may have cut the log.
    assert SECOND in copied(tmp_path / "copies")


def test_a_disk_that_is_not_mounted_has_deleted_nothing(tmp_path: Path) -> None:
    folder, lines = node(tmp_path / "node"), list[str]()
    copies = tmp_path / "copies"
    (folder / "data" / LOG / SECOND).write_bytes(b"more")
    with following(folder, copies, say=lines.append, read_up_to=lambda _: sys.maxsize) as kept:
        kept.wait_for_all()
        before = copied(copies)
        (folder / "data").rename(folder / "unmounted")
        wait_for(lambda: any("no metadata log was found on the node" in line for line in lines))
        assert copied(copies) == before
        (folder / "unmounted").rename(folder / "data")
        wait_for(lambda: lines.count("node 7: up to date") == 2)
    assert copied(copies) == logged(folder)


def test_a_node_that_hangs_is_tried_again_and_stops_nobody(tmp_path: Path) -> None:
    folders = {n: node(tmp_path / f"node-{n}") for n in (7, 8)}
    pids, lines = tmp_path / "pids", list[str]()
    via = f"sh -c 'echo $$ {{host}} >>{pids}; shift; exec \"$@\"' x {{host}}"
    at = [f"{n}=via:host-{n}:{folder}" for n, folder in folders.items()]
    with Following(targets(at), via, tmp_path / "copies", 0.05, 3.0, lines.append) as kept:
        kept.wait_for_all()
        hung = int(next(line.split()[0] for line in pids.read_text().splitlines() if "host-7" in line))
        os.kill(hung, signal.SIGSTOP)
        logs = {n: folder / "data" / LOG / FIRST for n, folder in folders.items()}
        for log in logs.values():
            log.write_bytes(log.read_bytes() + b"more")
        copies = {n: tmp_path / "copies" / f"node-{n}" / "logdir0" / LOG / FIRST for n in folders}
        wait_for(lambda: copies[8].read_bytes() == logs[8].read_bytes())
        wait_for(lambda: "node 7: no answer within 3 s; the next try is in 1 s" in lines)
        wait_for(lambda: copies[7].read_bytes() == logs[7].read_bytes())
        wait_for(lambda: lines.count("node 7: up to date") == 2)
    assert lines.count("node 8: up to date") == 1


def test_a_node_that_cannot_be_reached_is_named_and_tried_ever_more_seldom(tmp_path: Path) -> None:
    lines: list[str] = []
    via = "sh -c 'echo no route to {host} >&2; exit 1'"
    with following(tmp_path, tmp_path / "copies", via, say=lines.append) as kept:
        kept.wait_for_all()
        wait_for(lambda: len(lines) == 2)
    shown = "node 7: the shell did not start (no route to host)"
    assert lines == [f"{shown}; the next try is in 1 s", f"{shown}; the next try is in 2 s"]


def test_a_follower_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    folder, copies = node(tmp_path / "node", os.urandom(3 * PIECE_BYTES)), tmp_path / "copies"
    log, (via, counted) = folder / "data" / LOG / FIRST, counting(tmp_path)
    words = ["collect", "--follow", "--output", str(copies), "--every", "0.5", "--node", f"7=via:host:{folder}"]
    command = [sys.executable, "-m", "jobs.cli", *words, "--via", via]
    copy = copies / "node-7" / "logdir0" / LOG / FIRST
    for number in range(2):
        with log.open("ab") as file:
            file.write(os.urandom(10_000))
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE)
        try:
            if number:
                wait_for(lambda: copy.stat().st_size == log.stat().st_size)
            else:
                wait_for(lambda: copy.exists() and copy.stat().st_size >= PIECE_BYTES)
        finally:
            process.kill()
            process.communicate()
    assert copy.read_bytes() == log.read_bytes()
    assert counted.stat().st_size < log.stat().st_size + PIECE_BYTES + 10_000


def test_one_process_keeps_the_copies(tmp_path: Path) -> None:
    folder = node(tmp_path / "node")
    with (
        following(folder, tmp_path / "copies"),
        pytest.raises(KraftForensicsError, match="another process keeps these copies"),
        following(folder, tmp_path / "copies"),
    ):
        pass
    assert (tmp_path / "copies" / LOCK).exists()
