"""Where the nodes of a drill are: on loopback, or each in a network namespace of its own, so that links can be cut.

The namespaces are joined by a bridge in another one, and by nothing else: the machine's own network has no part in it.
"""

import contextlib
import itertools
import os
import socket
import time
from collections.abc import Iterable, Iterator, Sequence

from drill.errors import call, finally_run

# The client's place among the nodes' ids.
CLIENT = 0
_PORT, _QUORUM_PORT = 9092, 9093
# Frames to it are dropped: no interface has it. (The first byte says that it is locally administered.)
_NOBODY = "02:00:00:00:00:00"
_FIRST_PORT, _PORTS = 10_000, 20_000
_asked = itertools.count(os.getpid() * 512)


class Places:
    """Where nodes and the client are: each in a namespace, or all on free ports of 127.0.0.1."""

    def __init__(self, nodes: Sequence[int], in_namespaces: bool = False) -> None:
        self.names = {node: f"drill-{os.getpid()}-{node}" for node in (CLIENT, *nodes)} if in_namespaces else {}
        if in_namespaces:
            hosts = {node: f"10.77.0.{number}" for number, node in enumerate(self.names, 1)}
            self._addresses = {node: (f"{host}:{_PORT}", f"{host}:{_QUORUM_PORT}") for node, host in hosts.items()}
        else:
            local = [f"127.0.0.1:{port}" for port in free_ports(2 * len(nodes))]
            self._addresses = dict(zip(nodes, zip(local[::2], local[1::2], strict=True), strict=True))
        self._cut: set[tuple[int, int]] = set()
        self._since_ms, self._until_ms = 0, 0

    def address(self, node: int) -> str:
        """host:port of a node."""
        return self._addresses[node][0]

    def quorum_address(self, node: int) -> str:
        """host:port at which a node is a controller."""
        return self._addresses[node][1]

    def host(self, node: int) -> str:
        return self.address(node).partition(":")[0]

    def inside(self, node: int) -> list[str]:
        """What a command begins with to run at a node's place."""
        return ["ip", "netns", "exec", self.names[node]] if self.names else []

    def disconnect(self, nodes: Iterable[int], peers: Iterable[int]) -> None:
        """From now on what these nodes and their peers send to each other is dropped silently: each has an Ethernet
        address for the other that nobody has."""
        if not self._cut:
            self._since_ms = int(time.time() * 1000)
        for here, there in (links := _links(nodes, peers)):
            to = f"{self.host(there)} lladdr {_NOBODY} dev eth0 nud permanent"
            _ip(f"-n {self.names[here]} neigh replace {to}")
        self._cut |= links

    def reconnect(self, nodes: Iterable[int], peers: Iterable[int]) -> None:
        """The links between these nodes and their peers work again."""
        for here, there in (links := self._cut & _links(nodes, peers)):
            _ip(f"-n {self.names[here]} neigh del {self.host(there)} dev eth0")
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


@contextlib.contextmanager
def network(nodes: Sequence[int]) -> Iterator[Places]:
    """Namespaces, which are removed in the end, also of a drill that is killed. Errors: DrillError if `ip` refuses
    something: it needs root, and no container that forbids it."""
    made, hub = Places(nodes, in_namespaces=True), f"drill-{os.getpid()}-hub"
    with finally_run(*(f"ip netns del {name}" for name in (hub, *made.names.values()))):
        for words in (f"netns add {hub}", f"-n {hub} link add br0 type bridge", f"-n {hub} link set br0 up"):
            _ip(words)
        for node, name in made.names.items():
            _ip(f"netns add {name}")
            _ip(f"-n {hub} link add to{node} type veth peer name eth0 netns {name}")
            _ip(f"-n {hub} link set to{node} master br0 up")
            _ip(f"-n {name} addr add {made.host(node)}/24 dev eth0")
            for device in ("lo", "eth0"):
                _ip(f"-n {name} link set {device} up")
        yield made


def _links(nodes: Iterable[int], peers: Iterable[int]) -> set[tuple[int, int]]:
    """From each of these nodes to each of its peers, and back."""
    ways = {(node, peer) for node, peer in itertools.product(nodes, peers) if node != peer}
    return ways | {(there, here) for here, there in ways}


def _ip(words: str) -> None:
    call("ip", *words.split())


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
