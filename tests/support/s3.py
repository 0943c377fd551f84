"""An S3-compatible server on loopback (moto's own, as a process), and a server that alters its answers."""

import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest

from drill.network import free_ports
from tests.support.forwarding import Forwarder, serving

START_SECONDS = 300
KEY, SECRET = "AKIDOFTHETESTS", "the-secret-of-the-tests"

Alter = Callable[[str, str, bytes], bytes]


def credentials(endpoint: str, home: Path) -> dict[str, str | None]:
    """Environment of a client; None: not to be set. home: a folder without ~/.aws."""
    own = {name: None for name in os.environ if name.startswith(("AWS_", "FSSPEC_"))}
    return {
        **own,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "HOME": str(home),
    }


def use(patch: pytest.MonkeyPatch, endpoint: str, home: Path) -> None:
    """Let clients of this process find the store. home: as in `credentials`."""
    for name, value in credentials(endpoint, home).items():
        patch.delenv(name, raising=False) if value is None else patch.setenv(name, value)


@dataclass(frozen=True)
class Store:
    """A running server. client: boto3's; log: moto's, with a line for each request."""

    endpoint: str
    client: Any = field(repr=False)
    log: Path

    @contextmanager
    def asking_for_permissions(self) -> Iterator[None]:
        """From the first request on: nobody has any."""
        address, plain = f"{self.endpoint}/moto-api/reset-auth", {"Content-Type": "text/plain"}
        urllib.request.urlopen(urllib.request.Request(address, b"0", plain)).close()
        try:
            yield
        finally:
            urllib.request.urlopen(urllib.request.Request(address, b"inf", plain)).close()

    def reads(self) -> Counter[str]:
        """How often each path was asked for until now, as `GET /bucket/key`."""
        return Counter(re.findall(r"GET /[^ ?]*", self.log.read_text(errors="replace")))

    def bucket(self, name: str, objects: dict[str, bytes]) -> str:
        self.client.create_bucket(Bucket=name)
        for key, data in objects.items():
            self.put(name, key, data)
        return name

    def put(self, bucket: str, key: str, data: bytes) -> None:
        self.client.put_object(Bucket=bucket, Key=key, Body=data)

    def upload(self, folder: Path, bucket: str, prefix: str) -> None:
        """Every file below a folder, or one file."""
        for file in [folder] if folder.is_file() else (f for f in folder.rglob("*") if f.is_file()):
            self.put(bucket, f"{prefix}/{file.relative_to(folder)}".removesuffix("/."), file.read_bytes())


@contextmanager
def moto(log: Path) -> Iterator[Store]:
    """moto's server. log: the file that it writes to."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    endpoint = f"http://127.0.0.1:{port}"
    try:
        _wait_for(endpoint, process, log)
        client = boto3.client(
            "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id=KEY, aws_secret_access_key=SECRET
        )
        yield Store(endpoint, client, log)
        client.close()
    finally:
        process.terminate()
        process.wait(20)


def _wait_for(endpoint: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            urllib.request.urlopen(endpoint, timeout=5).close()
            return
        except urllib.error.HTTPError as refused:
            refused.close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise TimeoutError(f"moto does not answer:\n{log.read_text(errors='replace')[-2000:]}") from None
            time.sleep(0.1)


@contextmanager
def in_front_of(endpoint: str, alter: Alter) -> Iterator[str]:
    """A server that passes requests on and gives back what `alter(method, path, body)` makes of the body, with the
    length that the body then has. Yields its endpoint."""

    class Handler(Forwarder):
        def answer(self, sent: bytes | None) -> None:
            status, headers, body = self.passed_on(sent)
            self.send(status, headers, body if self.command == "HEAD" else alter(self.command, self.path, body))

    with serving(Handler, endpoint) as own:
        yield own
