"""Scenarios: small TOML files that say what is done to a cluster (docs/drill.md has the steps)."""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model, model_validator

from drill.errors import DrillError

SCENARIOS = Path(__file__).parent / "scenarios"

Partition = Annotated[str, Field(pattern=r"^[A-Za-z0-9._]+-[0-9]+$")]
Broker = Annotated[int, Field(ge=1, le=4)]


# A node by its id, or by what it is at the moment: `leader:orders-0`.
_Id = Literal[1, 2, 3, 4, 3000, 3001, 3002]
Which = _Id | Annotated[str, Field(pattern=r"^(leader:[A-Za-z0-9._]+-[0-9]+|controller)$")]


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


# Those whose links to a node are cut.
Peer = Which | Literal["brokers", "controllers", "client"]
Partitions = Annotated[list[Partition], BeforeValidator(_as_list)]
Nodes = Annotated[list[Which], BeforeValidator(_as_list)]
Peers = Annotated[list[Peer], BeforeValidator(_as_list)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Topic(_Strict):
    """replicas: of each partition, in order. configs: as Kafka's, all text."""

    replicas: list[list[Broker]]
    configs: dict[str, str] = {}


# What a step may do, by the type of what it does it to.
ACTIONS: dict[str, Any] = {
    **dict.fromkeys(("produce", "transact", "load", "send", "elect"), Partitions),
    **dict.fromkeys(("reassign", "move", "cancel", "wait"), Partition),
    **dict.fromkeys(("stop", "ask_to_stop", "kill", "freeze", "thaw", "start", "begin", "hold", "says"), Nodes),
    **dict.fromkeys(("refuses", "cut", "disconnect", "reconnect", "fill", "free", "ended", "fenced", "keep"), Nodes),
    **dict.fromkeys(("set", "create", "delete"), str),
    **dict.fromkeys(("unload", "elr", "describe", "read", "capture", "clear"), bool),
    "sleep": Annotated[float, Field(ge=0, le=60)],
    "outage": Annotated[int, Field(ge=1, le=4)],
    **dict.fromkeys(("random", "ahead"), Annotated[int, Field(ge=1, le=60)]),
}


class _Words(_Strict):
    """The words that belong to actions."""

    count: int = Field(default=10, ge=1, le=10_000)
    acks: Literal["all", "1"] = "all"
    codec: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    keys: int = Field(default=0, ge=0, le=1000)
    every_ms: int = Field(default=100, ge=5)
    threads: int = Field(default=1, ge=1, le=64)
    line: str = ""
    at: str = ""
    commit: bool = True
    topic: str | None = None
    broker: Broker | None = None
    peers: Peers = ["brokers", "controllers", "client"]
    network: bool = False
    type: Literal["UNCLEAN", "PREFERRED"] = "UNCLEAN"
    to: list[Broker] = []
    leader: int | None = None
    isr: list[Broker] | None = None
    in_elr: list[Broker] | None = None
    last_known: list[Broker] | None = None

    @model_validator(mode="after")
    def _one_action(self) -> "_Words":
        if len(self._actions()) != 1:
            raise ValueError(
                f"a step has one action, of {', '.join(ACTIONS)}; this one has {self._actions() or 'none'}"
            )
        return self

    def _actions(self) -> list[str]:
        return [name for name in ACTIONS if getattr(self, name) is not None]

    @property
    def action(self) -> str:
        return self._actions()[0]

    @property
    def value(self) -> Any:
        """What the action is done to."""
        return getattr(self, self.action)

    @property
    def partitions(self) -> list[str]:
        """The partitions that the action names."""
        kind = ACTIONS[self.action]
        return self.value if kind is Partitions else [self.value] if kind is Partition else []


# One step: exactly one action, and the words that belong to it.
_fields: Any = {name: (kind | None, None) for name, kind in ACTIONS.items()}
Step: Any = create_model("Step", __base__=_Words, **_fields)


class Expected(_Strict):
    """lost: the partitions that lose records that were acknowledged with acks=all; all others lose none. any: losses
    depend on the seed, and are not compared."""

    lost: list[Partition] = []
    any: bool = False


class DrillScenario(_Strict):
    """name: of the file, with `+plan` if a plan is added. docs/drill.md has the others."""

    name: str
    title: str
    story: str
    elr: bool = True
    releases: str = "4.0"
    session_ms: int = Field(default=6000, ge=3000)
    configs: dict[str, str] = {}
    log_dirs: int = Field(default=1, ge=1, le=4)
    combined: list[Broker] = Field(default=[], max_length=2)
    disks_mib: dict[Broker, Annotated[int, Field(ge=16, le=256)]] = {}
    power_losses: bool = True
    plan: bool = False
    watch: Literal["", "folders", "nodes"] = ""
    topics: dict[str, Topic]
    steps: list[Step]
    expected: Expected = Expected()

    @model_validator(mode="after")
    def _known_topics(self) -> "DrillScenario":
        for step in self.steps:
            for name in (step.topic, step.delete, step.create, *map(topic_of, step.partitions)):
                if name is not None and name not in self.topics:
                    raise ValueError(f"step {step.action!r} names {name!r}, which [topics] lacks")
            if step.move is not None and step.broker is None:
                raise ValueError("step 'move' needs a broker")
            for broker in (*(step.fill or ()), *(step.free or ())):
                if broker not in self.disks_mib:
                    raise ValueError(f"step {step.action!r} names {broker!r}, which disks_mib lacks")
        if self.plan and self.disks_mib:
            raise ValueError("a plan is followed on disks that can be copied: leave out disks_mib")
        return self

    @property
    def partitions(self) -> list[str]:
        """The partitions of all topics."""
        return [f"{name}-{number}" for name, topic in self.topics.items() for number in range(len(topic.replicas))]

    @property
    def holds_threads(self) -> bool:
        return any(step.hold is not None for step in self.steps)

    @property
    def cuts_network(self) -> bool:
        """Whether a step cuts links between nodes."""
        return any(step.disconnect is not None or step.network for step in self.steps)

    @property
    def fenced_s(self) -> float:
        """After so long a broker that died is fenced."""
        return self.session_ms / 1000 + 2

    def runs_on(self, release: str) -> bool:
        """releases: the oldest release that has what the scenario needs."""
        number, oldest = (tuple(map(int, text.split("."))) for text in (release, self.releases))
        return number >= oldest


def name_of(row: dict[str, Any]) -> str:
    """The name of the partition that a row is about."""
    return f"{row['topic']}-{row['partition']}"


def topic_of(partition: str) -> str:
    return partition.rpartition("-")[0]


def number_of(partition: str) -> int:
    return int(partition.rpartition("-")[2])


def scenario_names() -> list[str]:
    """The bundled scenarios."""
    return sorted(path.stem for path in SCENARIOS.glob("*.toml"))


def read_scenario(name: str, plan: bool = False) -> DrillScenario:
    """A bundled scenario by name, or a file by path. plan: after any other steps than those of a scenario with a plan
    all brokers go down by chance, and the plan is followed. Errors: DrillError naming the file and the entry."""
    path = SCENARIOS / f"{name}.toml" if "/" not in name and not name.endswith(".toml") else Path(name)
    try:
        values = {**tomllib.loads(path.read_text(encoding="utf-8")), "name": path.stem}
        if plan and not values.get("plan"):
            values |= {"name": f"{path.stem}+plan", "plan": True, "expected": {"any": True}}
            values["steps"] += [{"clear": True}, {"outage": 4}]
        return DrillScenario.model_validate(values)
    except FileNotFoundError as error:
        raise DrillError(f"{name}: no such scenario. Bundled are {', '.join(scenario_names())}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise DrillError(f"{path}: {where}: {first['msg'].removeprefix('Value error, ')}") from error
    except (OSError, ValueError) as error:
        raise DrillError(f"{path}: the scenario cannot be read: {error}") from error
