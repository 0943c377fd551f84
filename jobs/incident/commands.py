"""Commands of Kafka's tools, and of this one, for the actions of a plan (replay/plan/step.py). No topic name
that Kafka refuses is in an action."""

import re
import shlex
from collections.abc import Iterable, Sequence

from replay.plan.step import MOST_PLACES, Action, What, joined

# What is to be filled in.
BOOTSTRAP, CONTROLLERS = "$BOOTSTRAP", "$CONTROLLERS"
FILL_IN = {
    BOOTSTRAP: "host:port of a broker that runs",
    CONTROLLERS: "host:port of a controller, as in controller.quorum.bootstrap.servers: while no broker runs, only "
    "controllers answer",
}
_HOST = re.compile(r"\$HOST_([0-9]+)")
_OF_HOST = (
    "user@host of broker {0}, whose process is down unless the step says that it runs; or give {0}=disk:PATH, where "
    "its disk is mounted"
)
_SERVER = f'--bootstrap-server "{BOOTSTRAP}"'


def commands_of(action: Action) -> tuple[str, ...]:
    """The commands, in the order in which to run them."""
    topic = f"--topic {shlex.quote(action.topic or '')}"
    match action.what:
        case What.SET_CONFIG:
            server = f'--bootstrap-controller "{CONTROLLERS}"' if action.by_controller else _SERVER
            entity = "brokers --entity-default"
            if action.topic is not None:
                entity = f"topics --entity-name {shlex.quote(action.topic)}"
            value = f"{action.name}={action.value}"
            return (f"kafka-configs.sh {server} --alter --entity-type {entity} --add-config {value}",)
        case What.ELECT:
            of = f"{topic} --partition {action.partition}{_when(action)}"
            return (f"kafka-leader-election.sh {_SERVER} --election-type UNCLEAN {of}",)
        case What.COPY_LOGS:
            node = f'--node {action.broker}=ssh:"$HOST_{action.broker}" --output old-{action.broker}'
            more = f"  # and {action.value} partitions more" if action.value else ""
            return (f"kraft-forensics collect --light {node} --replica-logs {action.name}{more}",)
        case What.REASSIGN:
            tool = f"kafka-reassign-partitions.sh {_SERVER} --reassignment-json-file {action.name}"
            write = f"printf '%s\\n' {shlex.quote(action.value or '')} > {action.name}"
            # Without --additional it refuses while any reassignment is under way, also that of the plan before.
            return write, f"{tool} --additional --execute", f"{tool} --verify"
        case What.FEATURE:
            return (f"kafka-features.sh {_SERVER} upgrade --feature {action.name}={action.value}",)
        case What.UNAVAILABLE:
            return (f"kafka-topics.sh {_SERVER} --describe --unavailable-partitions",)
        case What.UNDER_REPLICATED:
            return (f"kafka-topics.sh {_SERVER} --describe --under-replicated-partitions",)
        case What.GROUPS:
            return (f"kafka-consumer-groups.sh {_SERVER} --describe --all-groups",)
        case What.HANGING:
            return (f"kafka-transactions.sh {_SERVER} find-hanging {topic} --partition {action.partition}",)
        case What.GROUP_IDS:
            return (f"kafka-consumer-groups.sh {_SERVER} --list{_only(action)}",)
        case What.TRANSACTION_IDS:
            return (f"kafka-transactions.sh {_SERVER} list{_only(action)}",)


def _when(action: Action) -> str:
    """When to run an election, as a comment of the shell."""
    if action.broker is None:
        return ""
    # A last known leader that runs is elected as soon as a broker's registration empties the ELR.
    stopped = f" after {joined(action.brokers)} stopped," if action.brokers else ""
    return f"  # once broker {action.broker} has started,{stopped} before the next"


def _only(action: Action) -> str:
    """Keep the ids that belong to the partitions."""
    if action.value is None:
        return ""
    only = ",".join(map(str, action.partitions[:MOST_PLACES]))
    return f" | kraft-forensics coordinator --partitions {action.value} --only {only}"


def fill_in(commands: Iterable[str]) -> dict[str, str]:
    """What the commands leave open -> what to write there."""
    texts: Sequence[str] = list(commands)
    hosts = sorted({int(number) for each in texts for number in _HOST.findall(each)})
    known = {name: text for name, text in FILL_IN.items() if any(name in each for each in texts)}
    return known | {f"$HOST_{number}": _OF_HOST.format(number) for number in hosts}
