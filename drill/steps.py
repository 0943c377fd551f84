"""What each step of a scenario does to the cluster."""

import contextlib
import json
import random
import signal
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drill.ahead import play_ahead
from drill.chance import play_chance, play_outage
from drill.client import Client, ClientError
from drill.disks import cut_tail, fill, free
from drill.errors import DrillError
from drill.ledger import Ledger
from drill.network import CLIENT, accepts
from drill.nodes import BROKERS, CONTROLLERS, Cluster, Node, wait_for
from drill.scenario import DrillScenario, Step, name_of, number_of, topic_of
from drill.score import LAG_MS
from jobs.collect.stage import MANIFEST, Wishes, collect
from jobs.collect.targets import Target

Row = dict[str, Any]
_WAIT_S, _SETTLE_S = 60.0, 12.0
# BrokerServer.startup opens the listener after that (broker.BrokerLifecycleManager, 4.3.1).
UNFENCED = "The broker has been unfenced"

# The steps that do one thing to each node.
_TO_NODES: dict[str, Callable[[Node], None]] = {
    "stop": lambda node: node.end(signal.SIGTERM),
    "ask_to_stop": lambda node: node.send(signal.SIGTERM),
    "kill": lambda node: node.end(signal.SIGKILL),
    "freeze": Node.freeze,
    "thaw": Node.thaw,
    "free": lambda node: free(node.home / "data"),
}

_ASKED = tomllib.loads(Path(__file__).with_name("steps.toml").read_text(encoding="utf-8"))["asked"]


@dataclass
class Drill:
    """A scenario that is being played. captures: their folders; kept: those of copied disks. described: what `describe`
    answered, with the times between which it was asked. journal: (time, what was done). wrong: what was not as the
    product's commands said, known while it is played. told: what the result has of plan, ahead, watch, salvage."""

    scenario: DrillScenario
    cluster: Cluster
    client: Client
    ledger: Ledger
    rng: random.Random
    out: Path
    say: Callable[[str], None]
    captures: list[Path] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)
    described: list[Row] = field(default_factory=list)
    journal: list[tuple[int, str]] = field(default_factory=list)
    wrong: list[Row] = field(default_factory=list)
    told: dict[str, Any] = field(default_factory=dict)

    def note(self, text: str) -> None:
        self.journal.append((int(time.time() * 1000), text))
        self.say(text)

    @contextlib.contextmanager
    def notes_refusals(self) -> Iterator[None]:
        """What Kafka refuses is no error, but noted."""
        try:
            yield
        except ClientError as error:
            self.note(f"refused: {error}")

    def create(self, name: str) -> None:
        """Of [topics], as it is there."""
        topic = self.scenario.topics[name]
        assignment = "/".join(",".join(map(str, replicas)) for replicas in topic.replicas)
        configs = [f"{key}={value}" for key, value in topic.configs.items()]
        self.ledger.ids[name] = self.client.ask("create", name, assignment, *configs)

    def play(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if done := _TO_NODES.get(step.action):
                for node in self.nodes(step.value):
                    self.note(f"{step.action} node {node.id}")
                    done(node)
            elif step.action in _TO_EACH:
                for node in self.nodes(step.value):
                    getattr(self, f"_{step.action}")(step, node)
            elif step.action in _ASKED:
                self._ask(step)
            elif plain := _PLAIN.get(step.action):
                plain(self, step.value)
            else:
                getattr(self, f"_{step.action}")(step)

    def ids(self, which: Iterable[int | str]) -> list[int]:
        return [self._id(one) for one in which]

    def nodes(self, which: Iterable[int | str]) -> list[Node]:
        return [self.cluster.nodes[node] for node in self.ids(which)]

    def _id(self, which: int | str) -> int:
        if isinstance(which, int):
            return which
        if which == "controller":
            return int(self.client.ask("quorum"))
        leader = self.state(which.removeprefix("leader:"))["leader"]
        if leader < 0:
            raise DrillError(f"{which}: the partition has no leader")
        return int(leader)

    def partitions(self) -> list[Row]:
        """What Kafka describes now; nothing while nobody can answer."""
        try:
            return list(self.client.ask("describe")["partitions"])
        except ClientError:
            return []

    def state(self, partition: str) -> Row:
        return next((r for r in self.partitions() if name_of(r) == partition), {"leader": -1})

    def _ask(self, step: Step) -> None:
        """Note and ask what steps.toml says of a step, once or for each partition that it names."""
        told, command = _ASKED[step.action]
        where = f"topic {step.topic}" if step.topic else f"broker {step.broker or '-'}"
        words = {
            **step.model_dump(),
            "where": where,
            "whom": where.replace("broker -", "all brokers"),
            "switched": "on" if step.elr else "off",
            "level": int(step.elr or 0),
            "names": ", ".join(step.partitions),
            "all": " ".join(step.partitions),
            "end": "commit" if step.commit else "abort",
            "way": step.type.lower(),
            "brokers": ",".join(map(str, step.to)),
        }
        self.note(told.format_map(words))
        places = [f"{topic_of(name)} {number_of(name)}" for name in step.partitions]
        for place in places if "{place}" in command else [""]:
            self.client.ask(command.format_map({**words, "place": place}))

    def _start(self, step: Step) -> None:
        ids = self.ids(step.value)
        self.note(f"start node {', '.join(map(str, ids))}")
        self.cluster.start(ids)

    def _begin(self, step: Step) -> None:
        for node in self.cluster.begin(self.ids(step.value)):
            self.note(f"start node {node.id}, and wait for nothing")

    def _hold(self, step: Step, node: Node) -> None:
        self.cluster.hold(node, step.at)
        self.note(f"each thread of node {node.id} that enters {step.at} is held there")

    def _says(self, step: Step, node: Node) -> None:
        wait_for(f"node {node.id} says {step.line!r}", lambda: node.said(step.line) is not None, _WAIT_S)
        self.note(f"node {node.id} says: {node.said(step.line)}")

    def _refuses(self, step: Step, node: Node) -> None:
        """Until its log says that it is unfenced, a broker that has begun refuses every connection; step.line: what its
        log says before that."""
        begun_s, said = time.time(), None
        while not accepts(self.cluster.places.address(node.id)):
            said = said or node.said(step.line)
            if time.time() > begun_s + _WAIT_S:
                raise DrillError(f"node {node.id} refuses connections for more than {_WAIT_S:.0f} s")
            time.sleep(0.02)
        unfenced = node.said(UNFENCED)
        if unfenced is None or said is None:
            raise DrillError(f"node {node.id} accepts a connection before it says {UNFENCED!r}, or {step.line!r}")
        self.note(f"node {node.id} refused connections for {time.time() - begun_s:.1f} s, and said: {said}")
        self.note(f"and accepts them after: {unfenced}")

    def _cut(self, step: Step, node: Node) -> None:
        """A power loss: the broker's last records were not on its disk yet, and its machine boots anew."""
        if node.runs:
            raise DrillError(f"node {node.id} runs: kill it before its tails are cut")
        topics = [step.topic] if step.topic else list(self.scenario.topics)
        cut = {name: n for folder in node.log_dirs for name, n in cut_tail(folder, topics, step.count).items()}
        node.loses_power()
        losses = ", ".join(f"{name} loses {n}" for name, n in cut.items() if n) or "nothing is lost"
        self.note(f"power loss of node {node.id}: {losses}")

    def _fill(self, step: Step, node: Node) -> None:
        self.note(f"fill the disk of node {node.id} with {fill(node.home / 'data')} bytes")

    def _ended(self, step: Step, node: Node) -> None:
        wait_for(f"node {node.id} ends", lambda: not node.runs, _WAIT_S)
        self.note(f"node {node.id} has ended")

    def _keep(self, step: Step, node: Node) -> None:
        """Copy the disk of a broker that is down, as the plan says, before it starts and truncates."""
        if node.runs:
            raise DrillError(f"node {node.id} runs: its disk is kept while it is down")
        self.kept.append(self.copy_logs([node.id], "disk", f"kept-{node.id}"))
        self.note(f"keep the logs of node {node.id}")

    def _disconnect(self, step: Step) -> None:
        nodes = self.ids(step.value)
        self.note(f"disconnect node {', '.join(map(str, nodes))} from {', '.join(map(str, step.peers))}")
        self.cluster.places.disconnect(nodes, self._peers(step))

    def _reconnect(self, step: Step) -> None:
        nodes = self.ids(step.value)
        self.note(f"reconnect node {', '.join(map(str, nodes))}")
        self.cluster.places.reconnect(nodes, self._peers(step))

    def _peers(self, step: Step) -> list[int]:
        groups = {"brokers": BROKERS, "controllers": CONTROLLERS, "client": (CLIENT,)}
        return [id for peer in step.peers for id in groups.get(str(peer)) or [self._id(peer)]]

    def _delete(self, step: Step) -> None:
        topic = step.value
        self.read_topics([topic])
        self.note(f"delete topic {topic}")
        self.client.ask("delete", topic)
        gone = f"{topic} is deleted"
        wait_for(gone, lambda: topic not in {r["topic"] for r in self.partitions() or [{"topic": topic}]}, _WAIT_S)

    def _wait(self, step: Step) -> None:
        partition = step.value
        wanted = {"leader": step.leader, "isr": step.isr, "elr": step.in_elr, "last_known_elr": step.last_known}
        wanted = {key: sorted(v) if isinstance(v, list) else v for key, v in wanted.items() if v is not None}
        seen: Row = {}

        def holds() -> bool:
            seen.update(self.state(partition))
            return all(seen.get(key) == value for key, value in wanted.items())

        try:
            wait_for(partition, holds, _WAIT_S)
        except DrillError as error:
            raise DrillError(f"{partition} should have {wanted}, and has {seen}: {error}") from error
        self.note(f"{partition} has {', '.join(f'{key} {value}' for key, value in wanted.items())}")

    def _fenced(self, step: Step) -> None:
        ids = {int(one) for one in step.value}
        wait_for(f"brokers {ids} are fenced", lambda: not ids & set(self.client.ask("brokers")), _WAIT_S)
        self.note(f"brokers {sorted(ids)} are fenced")

    def describe(self) -> None:
        """What Kafka says of every partition, for the score. A broker that was cut off may be the one that answers."""
        answer = self.client.ask("describe")
        if (since_ms := self.cluster.places.outdated_since_ms(LAG_MS)) is not None:
            answer["outdated_since_ms"] = since_ms
        self.described.append(answer)

    def read_topics(self, topics: Iterable[str]) -> None:
        """Read every partition that has a leader. A new leader's high watermark may come late: a reader that misses
        something reads again."""
        wanted, deadline = set(topics), time.monotonic() + _SETTLE_S
        for row in [r for r in self.partitions() if r["topic"] in wanted and r["leader"] >= 0]:
            place = row["topic"], row["partition"]
            is_compacted = "compact" in self.scenario.topics[row["topic"]].configs.get("cleanup.policy", "")
            while True:
                told = self.client.ask("read", *place)
                missed = self.ledger.of(*place).missed(told["records"], told["begin"], is_compacted)
                gone = sum(record.acks == "all" for record in missed)
                if not gone or time.monotonic() > deadline:
                    break
                time.sleep(1)
            for record in missed:
                record.lost = True
            for record in self.ledger.of(*place).missed(told["records"]):
                record.unseen = True
            if gone:
                self.note(f"read {name_of(row)}: {gone} records acknowledged with acks=all are gone")

    def capture(self) -> None:
        path = self.out / f"capture-{len(self.captures) + 1}"
        self.capture_to(path)
        self.captures.append(path)
        self.note(f"capture {path.name}")

    def capture_to(self, path: Path) -> None:
        """A capture of all nodes in a new folder."""
        targets = [Target(id=node.id, at="local:", path=str(node.home)) for node in self.cluster.nodes.values()]
        collect(targets, Wishes(), path, int(time.time() * 1000), lambda line: None)
        # All nodes share this machine; the drill says what their own machines' boot ids, uptimes, journals and disks
        # would have been, whatever this one's are.
        manifest = json.loads((path / MANIFEST).read_text())
        for told in manifest["nodes"]:
            node = self.cluster.nodes[told["id"]]
            (path / told["path"] / "boot_id").write_text(f"{node.boot_id}\n")
            told |= {"uptime_s": int(told["captured_at"] / 1000 - node.booted_s), "boots": node.boots}
            for disk in told.get("disks", ()):
                disk.pop("transport", None)
                disk.update(file_system="ext4", is_system_disk=True)
        (path / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
        (path / "SHA256SUMS").unlink()

    def copy_logs(self, ids: Iterable[int], transport: str, name: str) -> Path:
        """Whole logs of all topics, in a folder beside the captures."""
        targets = [Target(id=node, at=f"{transport}:", path=str(self.cluster.nodes[node].home)) for node in ids]
        wishes = Wishes(light=True, replicas=tuple(self.scenario.partitions))
        collect(targets, wishes, self.out / name, int(time.time() * 1000), lambda line: None)
        return self.out / name

    def clear(self) -> None:
        """Nobody is frozen, cut off or without space, and all controllers run."""
        self.client.ask("unload")
        for node in self.cluster.nodes.values():
            if node.frozen:
                self.play([Step(thaw=node.id)])
        if cut := self.cluster.places.disconnected:
            self.note("heal: reconnect all nodes")
            self.cluster.places.reconnect(cut, cut)
        for broker in self.scenario.disks_mib:
            free(self.cluster.nodes[broker].home / "data")
        self._start_those_down(CONTROLLERS)

    def _start_those_down(self, ids: Iterable[int]) -> None:
        if down := [node for node in ids if not self.cluster.nodes[node].runs]:
            self.play([Step(start=down)])

    def heal(self) -> None:
        """All nodes run and every partition has a leader and all its replicas in sync; an administrator elects
        uncleanly what has no leader otherwise."""
        self.clear()
        self._start_those_down(BROKERS)
        asked = time.monotonic() + 15  # before that, brokers that have just come back may be elected by rule

        def whole() -> bool:
            rows = self.partitions()
            dead = [name_of(r) for r in rows if r["leader"] < 0]
            if dead and time.monotonic() > asked:
                with contextlib.suppress(ClientError):
                    self._ask(Step(elect=dead))
            return bool(rows) and not dead and all(r["isr"] == r["replicas"] for r in rows)

        wait_for("all replicas are in sync", whole, 120)
        self.note("healed: all replicas are in sync")


# The steps that are done to each node.
_TO_EACH = ("hold", "says", "refuses", "cut", "fill", "ended", "keep")
# The steps that have no other words.
_PLAIN: dict[str, Callable[[Drill, Any], None]] = {
    "create": Drill.create,
    "sleep": lambda drill, seconds: time.sleep(seconds),
    "describe": lambda drill, _: drill.describe(),
    "read": lambda drill, _: drill.read_topics(drill.scenario.topics),
    "capture": lambda drill, _: drill.capture(),
    "clear": lambda drill, _: drill.clear(),
    "outage": play_outage,
    "random": play_chance,
    "ahead": play_ahead,
}
