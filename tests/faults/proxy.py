"""A server in front of an object store that answers wrongly, too late or not at all."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.forwarding import Forwarder, serving


@dataclass
class Failing:
    """Which requests fail, and how.

    how: "500", "503" (the store's answers), "no answer" (the connection is closed after `silent_s`), "cut" (half of a
    body), or "stale" (a listing is the one of the first time). first: the first request that may, counted from 1;
    every: one of so many.
    """

    how: str
    first: int = 1
    every: int = 1
    silent_s: float = 0.2
    requests: int = 0
    failed: int = 0
    listings: dict[str, bytes] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def strikes(self) -> bool:
        with self.lock:
            self.requests += 1
            return self.requests >= self.first and self.requests % self.every == 0

    def count(self) -> None:
        with self.lock:
            self.failed += 1


@contextmanager
def failing(endpoint: str, fault: Failing) -> Iterator[str]:
    """Yield the endpoint of a server that passes requests on, or lets them fail."""

    class Handler(Forwarder):
        def answer(self, sent: bytes | None) -> None:
            strikes = fault.strikes()
            if strikes and fault.how in ("500", "503"):
                fault.count()
                name = "InternalError" if fault.how == "500" else "SlowDown"
                self.send(int(fault.how), [], f"<Error><Code>{name}</Code></Error>".encode())
                return
            if strikes and fault.how == "no answer":
                fault.count()
                time.sleep(fault.silent_s)
                self.close_connection = True
                return
            status, headers, body = self.passed_on(sent)
            if fault.how == "stale" and "list-type=2" in self.path and status == 200:
                known = fault.listings.setdefault(self.path, body)
                if strikes and known != body:
                    fault.count()
                    body = known
            if strikes and fault.how == "cut" and self.command == "GET" and len(body) > 1:
                fault.count()
                self.send(status, headers, body[: len(body) // 2], len(body))
                self.close_connection = True
                return
            self.send(status, headers, body)

    with serving(Handler, endpoint) as own:
        yield own
