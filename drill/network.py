"""Where the nodes of a drill are: on loopback, or each in a network namespace of its own, so that links can be cut.

The namespaces are joined by a bridge in another one, and by nothing else: the machine's own network has no part in it.
Their names have the drill's process id. What a drill left that was killed is removed by the next one.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from drill.errors import DrillError, call

# The client's place among the nodes' ids.
CLIENT = 0
_HUB, _PORT, _QUORUM_PORT = "hub", 9092, 9093
# Frames to it are dropped: no interface has it. (The first byte says that it is locally administered.)
_NOBODY = "02:00:00:00:00:00"
_FIRST_PORT, _PORTS = 10_000, 20_000
_asked = itertools.count(os.getpid() * 512)
_LEFT = re.compile(r"drill-([0-9]+)-[0-9a-z]+")


class LocalPorts:
    """All nodes on 127.0.0.1, each on free ports."""

    def __init__(self, nodes: Sequence[int]) -> None:
        ports = iter(free_ports(2 * len(nodes)))
        self._ports = {node: (next(ports), next(ports)) for node in nodes}

    def address(self, node: int) -> str:
        """host:port of a node."""
        return f"127.0.0.1:{self._ports[node][0]}"

    def quorum_address(self, node: int) -> str:
        """host:port at which a broker that is a controller, too, is one."""
        return f"127.0.0.1:{self._ports[node][1]}"

    def inside(self, node: int) -> list[str]:
        """What a command begins with to run at a node's place."""
        return []


class Network(LocalPorts):
    """A namespace for each node and for the client. Errors: DrillError if `ip` refuses something."""

    def __init__(self, nodes: Sequence[int]) -> None:
        self._hosts = {node: f"10.77.0.{number}" for number, node in enumerate((CLIENT, *nodes), 1)}
        self._cut: set[tuple[int, int]] = set()
        self._since_ms, self._until_ms = 0, 0

    def address(self, node: int) -> str:
        return f"{self._hosts[node]}:{_PORT}"

    def quorum_address(self, node: int) -> str:
        return f"{self._hosts[node]}:{_QUORUM_PORT}"

    def inside(self, node: int) -> list[str]:
        return ["ip", "netns", "exec", named(node)]

    def disconnect(self, nodes: Iterable[int], peers: Iterable[int]) -> None:
        """From now on what these nodes and their peers send to each other is dropped silently: each has an Ethernet
        address for the other that nobody has."""
        wanted = set(peers)
        if not self._cut:
            self._since_ms = int(time.time() * 1000)
        for one, other in ((a, b) for a in nodes for b in wanted if a != b):
            for here, there in ((one, other), (other, one)):
                words = ("neigh", "replace", self._hosts[there], "lladdr", _NOBODY, "dev", "eth0", "nud", "permanent")
                _ip("-n", named(here), *words)
                self._cut.add((here, there))

    def reconnect(self, nodes: Iterable[int], peers: Iterable[int]) -> None:
        """The links between these nodes and their peers work again."""
        links = {link for one in nodes for other in set(peers) for link in ((one, other), (other, one))}
        for here, there in sorted(self._cut & links):
            _ip("-n", named(here), "neigh", "del", self._hosts[there], "dev", "eth0")
        self._cut -= links
        self._until_ms = int(time.time() * 1000)

    @property
    def disconnected(self) -> list[int]:
        """The nodes with a link that is cut."""
        return sorted({here for here, _ in self._cut})

    def outdated_since_ms(self, lag_ms: int) -> int | None:
        """When the first link was cut that still is, or was until lag_ms ago: since then a broker may know nothing new.
        None: every broker hears from the controllers."""
        recent = bool(self._cut) or time.time() * 1000 - self._until_ms < lag_ms
        return self._since_ms if recent else None

    def make(self) -> None:
        _ip("netns", "add", named(_HUB))
        _ip("-n", named(_HUB), "link", "add", "br0", "type", "bridge")
        _ip("-n", named(_HUB), "link", "set", "br0", "up")
        for node, host in self._hosts.items():
            place, port = named(node), f"to{node}"
            _ip("netns", "add", place)
            _ip("-n", named(_HUB), "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", place)
            _ip("-n", named(_HUB), "link", "set", port, "master", "br0", "up")
            _ip("-n", place, "addr", "add", f"{host}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", place, "link", "set", device, "up")


@contextlib.contextmanager
def network(nodes: Sequence[int]) -> Iterator[Network]:
    """The namespaces, which are removed in the end."""
    remove_leftovers()
    made = Network(nodes)
    try:
        made.make()
        yield made
    finally:
        places: list[int | str] = [*nodes, CLIENT, _HUB]
        for place in places:
            with contextlib.suppress(DrillError):  # it was not made
                _ip("netns", "del", named(place))


def possible() -> bool:
    """Whether a namespace can be made: as root, with iproute2, and not in a container that forbids it."""
    if os.geteuid() or shutil.which("ip") is None:
        return False
    try:
        _ip("netns", "add", named("try"))
    except DrillError:
        return False
    _ip("netns", "del", named("try"))
    return True


def remove_leftovers() -> None:
    """Remove the namespaces of drills whose process is gone, and end what still runs in them."""
    for name in left_by_the_dead(line.split(" ")[0] for line in _ip("netns", "list").splitlines()):
        for process in _ip("netns", "pids", name).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        _ip("netns", "del", name)


def left_by_the_dead(names: Iterable[str]) -> list[str]:
    """Those of the names that a drill gave (`named`) whose process is gone."""
    found = ((name, _LEFT.fullmatch(name)) for name in names)
    return [name for name, match in found if match and not Path(f"/proc/{match[1]}").exists()]


def named(what: int | str) -> str:
    """A name that shows which process it belongs to."""
    return f"drill-{os.getpid()}-{what}"


def _ip(*words: str) -> str:
    return call("ip", *words)


def accepts(address: str) -> bool:
    """Whether somebody listens at host:port."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 2).close()
    except ConnectionRefusedError:
        return False
    return True


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at. None of them is one of those from which the system takes the port of a connection
    (ip_local_port_range): while a node is down, nobody gets its port. Another process asks from another place on."""
    found: list[int] = []
    while len(found) < count:
        port = _FIRST_PORT + next(_asked) % _PORTS
        with contextlib.suppress(OSError):
            socket.create_server(("127.0.0.1", port)).close()
            found.append(port)
    return found
