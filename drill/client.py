"""The client of a drill, which runs in a JVM: commands in, acknowledgements and answers out (DrillClient.java)."""

import contextlib
import json
import queue
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from drill.errors import DrillError
from drill.ledger import Ledger
from drill.nodes import java

_SLOWEST_S = 90.0


class ClientError(DrillError):
    """Kafka refused a command, or did not answer in time."""


class Client:
    """What it prints about records goes to the ledger while commands run, and between them."""

    def __init__(self, process: subprocess.Popen[str], ledger: Ledger) -> None:
        self._process, self._ledger = process, ledger
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(json.JSONDecodeError):
                row = json.loads(line)
                if "done" in row or "error" in row:
                    self._answers.put(row)
                else:
                    self._ledger.add(row)
        self._answers.put(None)

    def ask(self, *words: str | int) -> Any:
        """Run a command and return its answer. Errors: ClientError."""
        assert self._process.stdin is not None
        command = " ".join(map(str, words))
        try:
            self._process.stdin.write(f"{command}\n")
            self._process.stdin.flush()
            answer = self._answers.get(timeout=_SLOWEST_S)
        except (OSError, queue.Empty) as error:
            raise DrillError(f"the client did not answer to {command!r}") from error
        if answer is None:
            raise DrillError(f"the client ended at {command!r}")
        if "error" in answer:
            raise ClientError(f"{command}: {answer['error']}")
        return answer["done"]


@contextlib.contextmanager
def client(jars: Path, servers: str, inside: Sequence[str], ledger: Ledger, log: Path) -> Iterator[Client]:
    """A client that runs, and is killed in the end. inside: what its command begins with (drill.network)."""
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [*inside, *java(jars), "DrillClient", servers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    try:
        yield Client(process, ledger)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
