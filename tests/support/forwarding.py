"""An HTTP server on loopback that passes requests on to another server, for tests that change the answers."""

import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_NOT_PASSED_ON = {"connection", "transfer-encoding", "content-length", "server", "date"}
_OF_THE_CONNECTION = {"host", "accept-encoding", "connection", "transfer-encoding", "content-length", "expect"}
_PASSED_ON_S = 60


class Forwarder(BaseHTTPRequestHandler):
    """Gives back what the server at `endpoint` answers; a subclass has its own `answer`."""

    protocol_version = "HTTP/1.1"
    endpoint: str

    def answer(self, sent: bytes | None) -> None:
        """Answer one request. sent: its body."""
        self.send(*self.passed_on(sent))

    def passed_on(self, sent: bytes | None) -> tuple[int, list[tuple[str, str]], bytes]:
        """(status, headers, body) of the other server's answer."""
        own = {k: v for k, v in self.headers.items() if k.lower() not in _OF_THE_CONNECTION}
        asked = urllib.request.Request(self.endpoint + self.path, data=sent, headers=own, method=self.command)
        try:
            found = urllib.request.urlopen(asked, timeout=_PASSED_ON_S)
        except urllib.error.HTTPError as error:
            found = error
        with found:
            headers = [(k, v) for k, v in found.headers.items() if k.lower() not in _NOT_PASSED_ON]
            if self.command == "HEAD":
                headers.append(("Content-Length", found.headers.get("Content-Length", "0")))
            return found.status, headers, found.read()

    def send(self, status: int, headers: list[tuple[str, str]], body: bytes, length: int | None = None) -> None:
        """Send an answer. length: what it says of its length; None: the body's."""
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _request(self) -> None:
        with suppress(ConnectionError):
            self.answer(self._sent() or None)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _request

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

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *given: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client that is gone
            super().handle_error(*given)  # type: ignore[arg-type]


@contextmanager
def serving(handler: type[Forwarder], endpoint: str) -> Iterator[str]:
    """Yield the endpoint of a server with this handler, a class of its own. endpoint: of the other server."""
    handler.endpoint = endpoint
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
