"""The nodes of a drill: three controllers and four brokers, each a process of its own; Kafka's jars, from Maven."""

import contextlib
import re
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from tempfile import TemporaryDirectory

from drill.errors import DrillError, call, spawn
from drill.network import Places
from drill.scenario import DrillScenario

CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAA"
CONTROLLERS, BROKERS = (3000, 3001, 3002), (1, 2, 3, 4)
NODES = (*CONTROLLERS, *BROKERS)
ELR_FEATURE = "eligible.leader.replicas.version"
HEAP = "256m"
NEEDED_MIB = 4500
WAIT_S = 120.0
# How long a node's machine is said to have run before the drill.
RUNS_S = 86_400
# What a machine wrote last, and lost with its power: Linux writes after dirty_expire_centisecs, looks each 5 s.
UNWRITTEN_S = 35
# Made by `fetch`.
SHARED_CLASSES = "node.jsa"
_DEBUGGED = ("-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=127.0.0.1:0",)
_LOGGING = Path(__file__).with_name("log4j2.properties")


def check_memory() -> None:
    """Errors: DrillError if the machine has not enough memory for eight JVMs now."""
    free = int(Path("/proc/meminfo").read_text().partition("MemAvailable:")[2].split()[0]) // 1024
    if free < NEEDED_MIB:
        raise DrillError(f"a drill needs {NEEDED_MIB} MiB of memory, and {free} are available")


def wait_for(what: str, happened: Callable[[], bool], within_s: float = WAIT_S) -> None:
    """Errors: DrillError if it has not happened by then."""
    deadline = time.monotonic() + within_s
    while not happened():
        if time.monotonic() > deadline:
            raise DrillError(f"{what}: not within {within_s:.0f} s")
        time.sleep(0.3)


@dataclass
class Node:
    """home: its folder, with server.properties, data/, perhaps data-2/, and logs/. boot_id, booted_s: of the machine
    that it is said to run on, and when that started: new ones after a power loss. boots: its runs before. begun: how
    long its logs were when its process began."""

    id: int
    home: Path
    process: subprocess.Popen[bytes] | None = None
    frozen: bool = False
    boot_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    booted_s: float = field(default_factory=lambda: time.time() - RUNS_S)
    boots: list[dict[str, object]] = field(default_factory=list)
    begun: dict[str, int] = field(default_factory=dict)

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def send(self, number: Signals) -> None:
        if self.process is not None:  # one that has ended gets none
            self.process.send_signal(number)

    def end(self, number: Signals, within_s: float = WAIT_S) -> None:
        """Send a signal and wait. Errors: DrillError if the process goes on."""
        if self.process is None:
            return
        self.send(number)
        if self.frozen:  # SIGKILL has ended it as it was
            self.thaw()
        try:
            self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise DrillError(f"node {self.id} did not end within {within_s:.0f} s") from None
        self.process = None

    def freeze(self) -> None:
        self.send(Signals.SIGSTOP)
        self.frozen = True

    def thaw(self) -> None:
        self.send(Signals.SIGCONT)
        self.frozen = False

    def loses_power(self) -> None:
        """Its machine boots anew; of the last run its journal has what was written."""
        now_s = time.time()
        if (ran_s := int(now_s - self.booted_s) - UNWRITTEN_S) > 0:
            at_ms = int((self.booted_s + ran_s) * 1000)
            self.boots.append({"boot_id": self.boot_id, "at": at_ms, "uptime_s": ran_s})
        self.boot_id, self.booted_s = str(uuid.uuid4()), now_s

    @property
    def log_dirs(self) -> list[Path]:
        return sorted(self.home.glob("data*"))

    def marks_begin(self) -> None:
        self.begun = {log.name: log.stat().st_size for log in (self.home / "logs").glob("*.log")}

    def begin(self, jars: Path, inside: Sequence[str] = (), options: Sequence[str] = ()) -> None:
        """Start its process, and wait for nothing. inside: what its command begins with (drill.network)."""
        self.marks_begin()
        logs = f"-Dkafka.logs.dir={self.home / 'logs'}"
        given = [f"-Dlog4j2.configurationFile={_LOGGING.absolute()}", logs, *options]
        command = [*inside, *java(jars), *given, "kafka.Kafka", "server.properties"]
        self.process = spawn(command, self.home / "out.log", cwd=self.home, stdin=subprocess.DEVNULL)

    def has_started(self) -> bool:
        """Whether its log says so. Errors: DrillError if the process has ended."""
        if not self.runs:
            last = (self.home / "out.log").read_text(errors="replace").strip().splitlines()[-1:]
            raise DrillError(f"node {self.id} ended while it started: {' '.join(last)}")
        return self.said("Kafka Server started") is not None

    def said(self, text: str) -> str | None:
        """The first line with that text that the present process has logged; None without one."""
        for log in sorted((self.home / "logs").glob("*.log")):
            lines = log.read_bytes()[self.begun.get(log.name, 0) :].decode(errors="replace").splitlines()
            if found := next((line for line in lines if text in line), None):
                return found
        return None


@dataclass
class Cluster:
    """nodes: by id. places: where they run. jars: the folder of one release. debugged: whether threads can be held."""

    nodes: dict[int, Node]
    places: Places
    jars: Path
    debugged: bool
    debuggers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def servers(self) -> str:
        """The brokers' addresses."""
        return ",".join(self.places.address(node) for node in BROKERS)

    @property
    def up(self) -> list[int]:
        """The brokers that run."""
        return [broker for broker in BROKERS if self.nodes[broker].runs]

    def start(self, ids: Iterable[int]) -> None:
        """Start nodes at once; wait until each says that it has started."""
        for node in self.begin(ids):
            wait_for(f"node {node.id} starts", node.has_started)

    def begin(self, ids: Iterable[int]) -> list[Node]:
        """Start nodes at once, and wait for nothing."""
        nodes = [self.nodes[i] for i in ids]
        for node in nodes:
            if node.runs:
                raise DrillError(f"node {node.id} runs already")
            node.begin(self.jars, self.places.inside(node.id), _DEBUGGED if self.debugged else ())
        return nodes

    def hold(self, node: Node, method: str) -> None:
        """Each thread of a node that enters a method stays there, until its process ends. Errors: DrillError."""
        assert node.process is not None
        attach, told = f"com.sun.jdi.ProcessAttach:pid={node.process.pid}", node.home / f"jdb-{method}.log"
        held = spawn(["jdb", "-connect", attach], told, stdin=subprocess.PIPE)
        assert held.stdin is not None
        held.stdin.write(f"stop thread in {method}\n".encode())
        held.stdin.flush()
        self.debuggers.append(held)
        wait_for(f"{method} of node {node.id}", lambda: b"Set breakpoint" in told.read_bytes(), 20)

    def end(self) -> None:
        """Kill every process that still runs."""
        for node in self.nodes.values():
            node.send(Signals.SIGKILL)
        for process in (*self.debuggers, *(node.process for node in self.nodes.values())):
            if process is not None:
                process.kill()
                process.wait()


def java(jars: Path) -> list[str]:
    """The beginning of a command that runs a class of a folder of jars. Times in logs are in UTC."""
    jvm = (f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC")
    shared = jars / SHARED_CLASSES
    return ["java", *jvm, *([f"-XX:SharedArchiveFile={shared}"] if shared.exists() else []), "-cp", f"{jars}/*:{jars}"]


@contextlib.contextmanager
def cluster(
    folder: Path, jars: Path, configs: Mapping[str, object], scenario: DrillScenario, places: Places
) -> Iterator[Cluster]:
    """A formatted cluster whose nodes have not started; whatever runs in the end is killed."""
    roles = dict.fromkeys(CONTROLLERS, "controller") | dict.fromkeys(BROKERS, "broker")
    roles |= dict.fromkeys(scenario.combined, "broker,controller")
    feature = ["--feature", f"{ELR_FEATURE}={int(scenario.elr)}"] if knows_elr(jars) else []
    nodes = _nodes(folder, jars, roles, places, configs, scenario.log_dirs, feature)
    made = Cluster(nodes, places, jars, scenario.holds_threads)
    try:
        yield made
    finally:
        made.end()


def combined_nodes(
    folder: Path, jars: Path, ids: Sequence[int], configs: Mapping[str, object]
) -> tuple[list[Node], str]:
    """(Nodes that are broker and controller, formatted; the brokers' addresses)."""
    places = Places(ids)
    nodes = _nodes(folder, jars, dict.fromkeys(ids, "broker,controller"), places, configs)
    return list(nodes.values()), ",".join(map(places.address, ids))


def _nodes(
    folder: Path,
    jars: Path,
    roles: Mapping[int, str],
    places: Places,
    configs: Mapping[str, object],
    log_dirs: int = 1,
    format_options: Sequence[str] = (),
) -> dict[int, Node]:
    """Formatted nodes, each in a folder `node-<id>`. roles: process.roles by id."""
    voters = [f"{node}@{places.quorum_address(node)}" for node, role in roles.items() if "controller" in role]
    nodes = {node: Node(node, folder / f"node-{node}") for node in roles}
    for node in nodes.values():
        listeners = {"broker": f"PLAINTEXT://{places.address(node.id)}"}
        listeners["controller"] = f"CONTROLLER://{places.quorum_address(node.id)}"
        data = [node.home / f"data{f'-{number}' if number > 1 else ''}" for number in range(1, log_dirs + 1)]
        for made in (node.home / "logs", *data):
            made.mkdir(parents=True, exist_ok=True)
        own = {
            "process.roles": roles[node.id],
            "node.id": node.id,
            "controller.quorum.voters": ",".join(voters),
            "listeners": ",".join(listeners[role] for role in roles[node.id].split(",")),
            "controller.listener.names": "CONTROLLER",
            "log.dirs": ",".join(map(str, data)),
            "metadata.log.dir": data[0],
        }
        lines = (f"{name}={value}\n" for name, value in {**own, **configs}.items())
        (node.home / "server.properties").write_text("".join(lines))
    first, *others = nodes.values()
    format_storage(first.home, jars, *format_options)
    for node in others:  # a copy is quicker; a node itself gives its directories their ids (KafkaRaftServer, 4.3.1)
        shutil.copytree(first.home / "data", node.home / "data", dirs_exist_ok=True)
        meta = f"version=1\ncluster.id={CLUSTER_ID}\nnode.id={node.id}\n"
        (node.home / "data" / "meta.properties").write_text(meta)
    return nodes


def format_storage(home: Path, jars: Path, *more: str) -> None:
    """By Kafka's tool."""
    words = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(home / "server.properties")]
    call(*java(jars), *words, *more)


def knows_elr(jars: Path) -> bool:
    """Whether the release has eligible leader replicas (Kafka 4.0)."""
    return not jars.name.startswith("3.")


_POM = Path(__file__).with_name("pom.xml")
CLIENT_SOURCE = Path(__file__).with_name("DrillClient.java")


def fetch(release: str, jars: Path) -> Path:
    """The folder with the jars of a release and the compiled client, absolute, since nodes run in folders of their own;
    Maven fetches them the first time.

    Errors: DrillError if Maven or javac fails.
    """
    if re.fullmatch(r"[0-9]+(\.[0-9]+){1,3}", release) is None:
        raise DrillError(f"{release!r} is no release of Kafka, e.g. 4.3.1")
    folder = jars.absolute() / release
    ready = folder / ".ready"
    source = CLIENT_SOURCE.read_text(encoding="utf-8")
    if ready.exists() and ready.read_text(encoding="utf-8") == source:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.glob("kafka-clients-*.jar")):
        words = ["mvn", "--quiet", "--batch-mode", "-f", str(_POM), f"-Dkafka.version={release}"]
        call(*words, "dependency:copy-dependencies", f"-DoutputDirectory={folder}")
    call("javac", "-nowarn", "-cp", f"{folder}/*", "-d", str(folder), str(CLIENT_SOURCE))
    with suppress(DrillError):
        _share_classes(folder)
    ready.write_text(source, encoding="utf-8")
    return folder


def _share_classes(jars: Path) -> None:
    """Let a node run once and leave its classes as they are when they are loaded: others start with half the work."""
    shared = jars / SHARED_CLASSES
    shared.unlink(missing_ok=True)
    with TemporaryDirectory(prefix="drill-") as folder:
        (node,), _ = combined_nodes(Path(folder), jars, [1], {})
        node.begin(jars, options=[f"-XX:ArchiveClassesAtExit={shared}"])
        try:
            wait_for("a node starts", node.has_started)
            node.end(SIGTERM)
        finally:
            node.end(SIGKILL)
