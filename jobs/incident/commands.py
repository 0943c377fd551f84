"""Commands of Kafka's tools, and of this one, for the actions of a plan (replay/plan/step.py): commands.toml with words
filled in. No topic name that Kafka refuses is in an action."""

import re
import shlex
import tomllib
from collections.abc import Iterable
from importlib.resources import files

from replay.plan.step import Action, joined

# What is to be filled in.
BOOTSTRAP, CONTROLLERS = "$BOOTSTRAP", "$CONTROLLERS"
_HOST = re.compile(r"\$HOST_([0-9]+)")
_TEXTS = tomllib.loads(files(__package__).joinpath("commands.toml").read_text("utf-8"))


def commands_of(action: Action) -> tuple[str, ...]:
    """The commands, in the order in which to run them."""
    topic = shlex.quote(action.topic or "")
    server = ("controller", CONTROLLERS) if action.by_controller else ("server", BOOTSTRAP)
    words = {
        **{name: getattr(action, name) for name in ("partition", "broker", "name", "value")},
        "server": '--bootstrap-{} "{}"'.format(*server),
        "entity": "brokers --entity-default" if action.topic is None else f"topics --entity-name {topic}",
        "topic": f"--topic {topic}",
        "text": shlex.quote(action.value or ""),
        "more": f"  # and {action.more} partitions more" if action.more else "",
        "when": _when(action),
        "only": _only(action),
    }
    return tuple(command.format_map(words) for command in _TEXTS["commands"][action.what])


def _when(action: Action) -> str:
    """When to run an election, as a comment of the shell."""
    if action.broker is None:
        return "  # while of its replicas only the one that has most runs"
    # A last known leader that runs is elected as soon as a broker's registration empties the ELR; and beside a member
    # that leads, with less, the replica that has most truncates as it starts.
    first = f"first stop {joined(action.brokers)}, then " if action.brokers else ""
    return f"  # {first}once broker {action.broker} has started, before the next"


def _only(action: Action) -> str:
    """Keep the ids that belong to the partitions."""
    if action.value is None:
        return ""
    only = ",".join(map(str, action.partitions))
    return f" | kraft-forensics coordinator --partitions {action.value} --only {only}"


def fill_in(commands: Iterable[str]) -> dict[str, str]:
    """What the commands leave open -> what to write there."""
    text = "\n".join(commands)
    hosts = sorted({int(number) for number in _HOST.findall(text)})
    known = {name: _TEXTS["fill_in"][name] for name in (BOOTSTRAP, CONTROLLERS) if name in text}
    return known | {f"$HOST_{number}": _TEXTS["fill_in"]["$HOST_"].format(number) for number in hosts}
