"""The nodes to collect from: what --node and a file of nodes say, and the command that opens a shell on each."""

import re
import shlex
import tomllib
from collections.abc import Iterable, Sequence
from functools import reduce
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from evidence.errors import KraftForensicsError, UsageError
from jobs.collect.frames import PIECE_BYTES

_NODE = re.compile(r"(?P<id>[0-9]{1,10})=(?P<transport>[a-z]+):(?P<rest>.*)", re.DOTALL)
_WHERE = re.compile(r"(?P<where>.*?)(?::(?P<path>/.*))?", re.DOTALL)
_TOPIC = r"[a-zA-Z0-9._-]{1,249}"
_SHELL = ("sh", "-s")
_TRANSPORTS = tomllib.loads(files(__package__).joinpath("transports.toml").read_text("utf-8"))


def _absolute(path: str) -> str:
    if not path.startswith("/") or "\n" in path or "\0" in path:
        raise ValueError(f"{path!r} is not an absolute path on the node")
    return path


NodePath = Annotated[str, AfterValidator(_absolute)]


class Target(BaseModel):
    """A node: its id, how to reach it, and where its files are; what is not given is looked for there. All paths are
    absolute.

    at: what follows the id in --node. path: a properties file, a log directory, or a folder with such files.
    properties: the node's properties file. log_dirs: as Kafka's log.dirs. metadata_log_dir: as Kafka's
    metadata.log.dir. logs: the folder with server.log.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[int, Field(ge=0, lt=1 << 31)]
    at: str
    path: NodePath | None = None
    properties: NodePath | None = None
    log_dirs: tuple[NodePath, ...] = ()
    metadata_log_dir: NodePath | None = None
    logs: NodePath | None = None

    def command(self, via: str | None) -> list[str]:
        """The command that runs a shell on the node, which reads a script from its standard input.

        via: the user's own command, with `{host}` where the host goes; it gets `sh -s` as its last two words.
        Errors: UsageError for a node that has another form.
        """
        transport, _, where = self.at.partition(":")
        of = _TRANSPORTS.get(transport)
        if of is None:
            raise UsageError(f"node {self.id}: {transport!r} is no transport. Use one of {', '.join(_TRANSPORTS)}.")
        found = re.fullmatch(of["pattern"], where)
        if found is None:
            raise UsageError(f"node {self.id}: {self.at!r} does not have the form {transport}:{of['form']}[:/PATH].")
        return [*_filled(_template(via) if transport == "via" else of["command"], found), *_SHELL]

    def host_command(self) -> list[str] | None:
        """The command that prints on which machine the node's container runs; None if nothing can."""
        transport, _, where = self.at.partition(":")
        of = _TRANSPORTS.get(transport, {})
        found = re.fullmatch(of["pattern"], where) if "host_command" in of else None
        return _filled(of["host_command"], found) if found else None


class _Nodes(BaseModel):
    """A file of nodes (docs/collect.md)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    via: str | None = None
    node: tuple[Target, ...] = ()


def parse_node(text: str) -> Target:
    """The node of a --node option: ID=TRANSPORT:WHERE[:/PATH]; for `local` and `disk`, ID=local:[PATH]. Errors:
    UsageError for another form."""
    found = _NODE.fullmatch(text)
    if found is None:
        raise UsageError(f"--node {text}: give ID=TRANSPORT:WHERE, e.g. 1=ssh:admin@host1 (docs/collect.md).")
    if found["transport"] in ("local", "disk"):
        where, path = "", str(Path(found["rest"]).absolute()) if found["rest"] else None
    else:
        split = _WHERE.fullmatch(found["rest"])
        where, path = (split["where"], split["path"]) if split else (found["rest"], None)
    at = f"{found['transport']}:{where}"
    try:
        return Target(id=int(found["id"]), at=at, path=path)
    except ValidationError as error:
        raise UsageError(f"--node {text}: {_first(error)}") from error


def read_nodes(file: Path) -> tuple[list[Target], str | None]:
    """The nodes of a TOML file, and its `via`. Errors: KraftForensicsError naming the file and the entry."""
    try:
        nodes = _Nodes.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise KraftForensicsError(f"{file}: {_first(error)} (docs/collect.md has an example)") from error
    except (OSError, ValueError) as error:
        raise KraftForensicsError(f"{file}: the file of nodes cannot be read: {error}") from error
    return list(nodes.node), nodes.via


def check_topics(names: Sequence[str]) -> tuple[str, ...]:
    """The names of --replica-tails. Errors: UsageError for one that Kafka does not allow."""
    for name in names:
        if re.fullmatch(_TOPIC, name) is None:
            raise UsageError(f"--replica-tails: {name!r} is not the name of a topic")
    return tuple(names)


def check_replicas(names: Sequence[str]) -> tuple[str, ...]:
    """The partitions of --replica-logs, each `topic-number`; several may stand in one, with commas between.
    Errors: UsageError for one that is none."""
    found = tuple(name for text in names for name in text.split(",") if name)
    for name in found:
        if re.fullmatch(rf"{_TOPIC}-[0-9]{{1,10}}", name) is None or name.startswith("__cluster_metadata-"):
            raise UsageError(f"--replica-logs: {name!r} is not the name of a partition, e.g. ledger-0")
    return found


def check_targets(targets: Sequence[Target], via: str | None) -> None:
    """Errors: UsageError without a node, for an id given twice, or a node that cannot be reached this way."""
    if not targets:
        raise UsageError("name at least one node: --node 1=ssh:host1 or --nodes FILE (docs/collect.md).")
    for target in targets:
        target.command(via)
    ids = [target.id for target in targets]
    twice = sorted({node for node in ids if ids.count(node) > 1})
    if twice:
        raise UsageError(f"node {twice[0]} is named twice: each node has one id and one place.")


def script(
    target: Target,
    tails: Iterable[str],
    minutes: int | None,
    light: bool = False,
    replicas: Iterable[str] = (),
    follow: bool = False,
) -> bytes:
    """What the node's shell is given after its clock was read: the wishes as quoted strings, and node.sh."""
    wishes = {
        "want_id": str(target.id),
        "want_path": target.path or "",
        "want_properties": target.properties or "",
        "want_metadata_dir": str(PurePosixPath(target.metadata_log_dir)) if target.metadata_log_dir else "",
        "want_logs": target.logs or "",
        "want_dirs": "\n".join(target.log_dirs),
        "want_tails": "\n".join(tails),
        "want_replicas": "\n".join(replicas),
        "want_disk": "yes" if target.at.startswith("disk:") else "",
        "want_minutes": "" if minutes is None else str(minutes),
        "want_light": "yes" if light else "",
        "want_follow": "yes" if follow else "",
        "want_piece": str(PIECE_BYTES),
    }
    head = "".join(f"{name}={shlex.quote(value)}\n" for name, value in wishes.items())
    return head.encode("utf-8", "surrogateescape") + Path(__file__).with_name("node.sh").read_bytes()


def _filled(words: Iterable[str], found: re.Match[str]) -> list[str]:
    """Words with a match's groups for their names in braces; without those that name a group that is not there."""
    named = {f"{{{name}}}": value for name, value in found.groupdict().items()}
    kept = [word for word in words if not any(value is None and name in word for name, value in named.items())]
    return [reduce(lambda text, name: text.replace(name, named[name] or ""), named, word) for word in kept]


def _template(via: str | None) -> list[str]:
    try:
        words = shlex.split(via or "")
    except ValueError as error:
        raise UsageError(f"--via: {error}") from error
    if not any("{host}" in word for word in words):
        raise UsageError(
            "a node with `via:` needs --via, a command with {host} in it, e.g. --via 'ssh -p 2222 {host}'."
        )
    return words


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg'].removeprefix('Value error, ')}"
