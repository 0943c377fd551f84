"""A connection to a running cluster, by confluent-kafka (the extra `produce`). No consumer group is joined, no offset
committed.

Sources: librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evidence.text_files import read_properties
from jobs.salvage.errors import SalvageError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

_READER = {"group.id": "kraft-forensics", "enable.auto.commit": False, "enable.partition.eof": True}
_TIMEOUT, _TIMEOUT_MS = "socket.timeout.ms", 30_000


class Connection:
    """bootstrap: HOST:PORT,... of brokers. file: properties of librdkafka; None: none. wait_s: how long an answer may
    take, socket.timeout.ms of the file or 30 s.

    Errors: SalvageError without confluent-kafka, or for a file or a property that cannot be used.
    """

    def __init__(self, bootstrap: str, file: Path | None = None) -> None:
        try:
            import confluent_kafka
        except ImportError as error:
            raise SalvageError("confluent-kafka is missing: pip install 'kraft-forensics[produce]'.") from error
        self.kafka, self.bootstrap = confluent_kafka, bootstrap
        try:
            own = read_properties(file.read_bytes()) if file else {}
        except OSError as error:
            raise SalvageError(f"{file}: cannot be read: {error.strerror}") from error
        timeout = own.get(_TIMEOUT, str(_TIMEOUT_MS))
        if not timeout.isdecimal():
            raise SalvageError(f"{file}: {_TIMEOUT}={timeout} is no number of milliseconds.")
        self.wait_s = int(timeout) / 1000
        self._failures: list[str] = []
        self.config: dict[str, Any] = {**own, "bootstrap.servers": bootstrap, "error_cb": self._failed, "log_level": 0}

    def _failed(self, error: KafkaError) -> None:
        self._failures.append(error.str())

    def consumer(self, **more: Any) -> Any:
        """One that is given partitions by `assign`. more: properties, with _ for each dot."""
        return self.kafka.Consumer({**self.config, **_READER, **{name.replace("_", "."): more[name] for name in more}})

    def why(self, otherwise: str) -> str:
        """What failed last, by the library's own report."""
        return (self._failures[-1:] or [otherwise])[0]

    @contextmanager
    def errors_of(self, what: str) -> Iterator[None]:
        """Errors of the library as SalvageError that begins with `what`."""
        try:
            yield
        except self.kafka.KafkaException as error:
            raise SalvageError(f"{what}: {self.why(error.args[0].str())}") from error
