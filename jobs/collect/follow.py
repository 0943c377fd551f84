"""Copies of nodes' metadata logs that are kept up to date: `collect --follow`, and what `watch --node` reads.

Each node has a thread and one shell (node.sh), which is asked every few seconds and sends what is new. What is here is
all that is known of a node: a follower that was killed goes on from its copies.
"""

import fcntl
import hashlib
import io
import os
import shlex
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Self

from evidence.errors import KraftForensicsError
from evidence.kinds import METADATA_CHECKPOINT, METADATA_SEGMENT, classify
from jobs.collect.frames import COMING, PLAIN_NAME, BrokenStream, Received, receive
from jobs.collect.session import Patient, greet, send, shell
from jobs.collect.stage import Progress, wrong_node
from jobs.collect.targets import Target, check_targets, script

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
_BLOCK_BYTES = 4096
LOCK = ".lock"


@dataclass(slots=True)
class Following:
    """Keeps DIR/node-ID of some nodes up to date while its `with` lasts.

    silence_s: after so long without an answer a node is asked over a new connection. read_up_to: what the node has
    deleted is deleted here once a later file of its kind begins at or below this offset of the folder's log; None: it
    is kept. Errors: KraftForensicsError for nodes that cannot be used, or a folder that another process keeps.
    """

    targets: Sequence[Target]
    via: str | None
    folder: Path
    every_s: float
    silence_s: float
    say: Progress
    read_up_to: Callable[[Path], int] | None = None
    _stopped: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _first: dict[int, threading.Event] = field(default_factory=dict)
    _lock: IO[bytes] | None = None

    def __enter__(self) -> Self:
        check_targets(self.targets, self.via)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = (self.folder / LOCK).open("wb")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise KraftForensicsError(f"{self.folder}: another process keeps these copies up to date") from error
        self._first = {target.id: threading.Event() for target in self.targets}
        self._threads = [threading.Thread(target=self._keep, args=(t,), daemon=True) for t in self.targets]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        if self._lock is not None:
            self._lock.close()

    def wait_for_all(self) -> None:
        """Until each node has sent all that it had, or has failed once."""
        for event in self._first.values():
            event.wait()

    def _keep(self, target: Target) -> None:
        pause_s, place = _FIRST_PAUSE_S, self.folder / f"node-{target.id}"
        while not self._stopped.is_set():
            up_to_date = False
            try:
                place.mkdir(exist_ok=True)
                with shell(target.command(self.via)) as process:
                    for _ in self._rounds(target, place, process.stdin, process.stdout):
                        if not up_to_date:
                            self.say(f"node {target.id}: up to date")
                        up_to_date, pause_s = True, _FIRST_PAUSE_S
                        self._first[target.id].set()
                        self._stopped.wait(self.every_s)
            except (BrokenStream, OSError) as error:
                if not self._stopped.is_set():
                    self.say(f"node {target.id}: {error}; the next try is in {pause_s:g} s")
                self._first[target.id].set()
                self._stopped.wait(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _rounds(self, target: Target, place: Path, to: IO[bytes] | None, pipe: IO[bytes] | None) -> Iterable[None]:
        """Ask a node again and again; yields whenever all is here that it had. Errors: BrokenStream, OSError."""
        assert to is not None
        assert pipe is not None
        back = io.BufferedReader(Patient(pipe, self.silence_s, self._stopped))
        try:
            greet(to, back)
            lines: set[str] = set()
            request = script(target, (), None, follow=True) + b"begin </dev/null\n"
            while not self._stopped.is_set():
                send(to, request)
                found = Received()
                receive(back, place, found)
                for line in (*found.missing, *wrong_node(place, target.id, found.files)):
                    if line not in lines:
                        lines.add(line)
                        self.say(f"node {target.id}: {line}")
                if found.facts.get("segments") == "0":
                    raise BrokenStream("no metadata log was found on the node")
                if "segments" in found.facts and not found.more:
                    self._delete(place, found.gone)
                    yield
                request = f"round {shlex.quote(_known(place))} </dev/null\n".encode()
        finally:
            with suppress(OSError):
                to.close()  # the shell ends when its input does

    def _delete(self, place: Path, gone: Iterable[str]) -> None:
        for name in gone:
            path = place / name
            kind = classify(PurePosixPath(path))
            if self.read_up_to is None or kind not in (METADATA_SEGMENT, METADATA_CHECKPOINT):
                continue
            files = [file for file in path.parent.iterdir() if classify(PurePosixPath(file)) == kind]
            # A segment's or snapshot's name begins with its offset.
            later = [int(file.name[:20]) for file in files if file.name > path.name]
            if later and min(later) <= self.read_up_to(path.parent):
                path.unlink()


def _known(place: Path) -> str:
    """What is here of a node, as `round` of node.sh wants it."""
    lines = []
    for path in sorted(Path(folder, name) for folder, _, names in os.walk(place) for name in names):
        if path.name == COMING:
            continue
        name, size = os.fsencode(path.relative_to(place)), path.stat().st_size
        whole = classify(PurePosixPath(path)) not in (METADATA_SEGMENT, METADATA_CHECKPOINT)
        start = 0 if whole else max(0, -(-size // _BLOCK_BYTES) - 2) * _BLOCK_BYTES
        with path.open("rb") as file:
            file.seek(start)
            digest = hashlib.sha256(file.read(size - start)).hexdigest()
        plain = PLAIN_NAME.fullmatch(name)
        lines.append(f"{'n:' + name.decode() if plain else 'x:' + name.hex()} {size} {digest}")
    return "\n".join(lines)
