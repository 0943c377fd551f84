"""A server in front of an object store that answers wrongly, too late or not at all."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_NOT_PASSED_ON = {"connection", "transfer-encoding", "content-length", "server", "date"}
_OF_THE_CONNECTION = {"host", "accept-encoding", "connection", "transfer-encoding", "content-length", "expect"}
_PASSED_ON_S = 60


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
    silent_s: float = 1.0
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

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            with suppress(ConnectionError):
                self._answer(self._sent() or None)

        def _sent(self) -> bytes:
            """The body of a request, also one in chunks of HTTP."""
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass  # trailers
            return b"".join(parts)

        def _answer(self, sent: bytes | None) -> None:
            strikes = fault.strikes()
            if strikes and fault.how in ("500", "503"):
                fault.count()
                name = "InternalError" if fault.how == "500" else "SlowDown"
                self._send(int(fault.how), [], f"<Error><Code>{name}</Code></Error>".encode())
                return
            if strikes and fault.how == "no answer":
                fault.count()
                time.sleep(fault.silent_s)
                self.close_connection = True
                return
            status, headers, body = self._passed_on(sent)
            if fault.how == "stale" and "list-type=2" in self.path and status == 200:
                known = fault.listings.setdefault(self.path, body)
                if strikes and known != body:
                    fault.count()
                    body = known
            if strikes and fault.how == "cut" and self.command == "GET" and len(body) > 1:
                fault.count()
                self._send(status, headers, body[: len(body) // 2], len(body))
                self.close_connection = True
                return
            self._send(status, headers, body)

        def _passed_on(self, sent: bytes | None) -> tuple[int, list[tuple[str, str]], bytes]:
            own = {k: v for k, v in self.headers.items() if k.lower() not in _OF_THE_CONNECTION}
            asked = urllib.request.Request(endpoint + self.path, data=sent, headers=own, method=self.command)
            try:
                found = urllib.request.urlopen(asked, timeout=_PASSED_ON_S)
            except urllib.error.HTTPError as error:
                found = error
            with found:
                headers = [(k, v) for k, v in found.headers.items() if k.lower() not in _NOT_PASSED_ON]
                if self.command == "HEAD":
                    headers.append(("Content-Length", found.headers.get("Content-Length", "0")))
                return found.status, headers, found.read()

        def _send(self, status: int, headers: list[tuple[str, str]], body: bytes, length: int | None = None) -> None:
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            if self.command != "HEAD":
                self.send_header("Content-Length", str(len(body) if length is None else length))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A client that is gone: what is tested."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
