"""Which nodes, how to reach them, and what is refused; examples/schedule, run as systemd and Kubernetes would."""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from evidence.capture.files import open_capture
from evidence.errors import KraftForensicsError, UsageError
from jobs.collect.targets import (
    Target,
    check_targets,
    check_topics,
    parse_node,
    read_nodes,
    script,
)
from tests.support.nodes import nodes
from tests.support.paths import ROOT

SSH = ["ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "--"]


@pytest.mark.parametrize(
    ("text", "command", "path"),
    [
        ("1=local:", ["sh", "-s"], None),
        ("1=local:/data", ["sh", "-s"], "/data"),
        ("1=ssh:admin@host-1.example", [*SSH, "admin@host-1.example", "sh", "-s"], None),
        ("1=ssh:fe80::1%eth0:/etc/kafka", [*SSH, "fe80::1%eth0", "sh", "-s"], "/etc/kafka"),
        ("2=kubectl:kafka/pod-0", ["kubectl", "exec", "-i", "--namespace=kafka", "pod-0", "--", "sh", "-s"], None),
        (
            "2=kubectl:kafka/pod-0/broker:/var/lib",
            ["kubectl", "exec", "-i", "--namespace=kafka", "pod-0", "--container=broker", "--", "sh", "-s"],
            "/var/lib",
        ),
        ("3=docker:kafka_1", ["docker", "exec", "-i", "kafka_1", "sh", "-s"], None),
        ("4=via:host", ["my ssh", "-p", "2222", "host", "sudo", "sh", "-s"], None),
    ],
)
def test_a_node_and_its_command(text: str, command: list[str], path: str | None) -> None:
    target = parse_node(text)
    assert target.command("'my ssh' -p 2222 {host} sudo") == command
    assert target.path == path


@pytest.mark.parametrize(
    "text",
    [
        *("ssh:host", "x=ssh:host", "1=ftp:host", "1=ssh:", "1=ssh:-oProxyCommand=touch", "1=ssh:host; touch x"),
        *("1=ssh:host name", "1=kubectl:pod", "1=kubectl:--all/pod", "1=kubectl:a/b/c/d", "1=docker:--privileged"),
        *("1=docker:a b", "1=ssh:host:/etc\n/kafka", "99999999999=local:", "9999999999=local:"),
    ],
)
def test_what_is_no_node(text: str) -> None:
    with pytest.raises(UsageError):
        parse_node(text).command("ssh {host}")


def test_an_own_command_needs_a_place_for_the_host() -> None:
    target = parse_node("1=via:host")
    for via in (None, "", "ssh host", "ssh '{host}"):
        with pytest.raises(UsageError, match="--via"):
            target.command(via)


def test_nodes_are_named_once() -> None:
    with pytest.raises(UsageError, match="at least one node"):
        check_targets([], None)
    with pytest.raises(UsageError, match="node 1 is named twice"):
        check_targets([Target(id=1, at="local:"), Target(id=1, at="ssh:host")], None)


def test_a_file_of_nodes(tmp_path: Path) -> None:
    file = tmp_path / "nodes.toml"
    file.write_text("""
via = "ssh -p 2222 {host}"
[[node]]
id = 3000
at = "via:controller-1"
properties = "/etc/kafka/c.properties"
[[node]]
id = 1
at = "ssh:broker-1"
log_dirs = ["/a", "/b c"]
metadata_log_dir = "/m"
logs = "/var/log/kafka"
""")
    nodes, via = read_nodes(file)
    assert via == "ssh -p 2222 {host}"
    assert nodes == [
        Target(id=3000, at="via:controller-1", properties="/etc/kafka/c.properties"),
        Target(id=1, at="ssh:broker-1", log_dirs=("/a", "/b c"), metadata_log_dir="/m", logs="/var/log/kafka"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[[node]]\nid = 1\n",
        '[[node]]\nid = 1\nat = "ssh:h"\nuser = "x"\n',
        '[[node]]\nid=1\nat="ssh:h"\nlogs="x"\n',
        "node =",
    ],
)
def test_a_file_of_nodes_with_a_slip(text: str, tmp_path: Path) -> None:
    (tmp_path / "nodes.toml").write_text(text)
    with pytest.raises(KraftForensicsError, match=r"nodes\.toml: "):
        read_nodes(tmp_path / "nodes.toml")


@pytest.mark.parametrize("topic", ["a b", "*", "../x", "", "a\nb", "'"])
def test_a_topic_that_kafka_does_not_allow(topic: str) -> None:
    with pytest.raises(UsageError, match="not the name of a topic"):
        check_topics([topic])


def test_options_reach_the_node_as_they_are() -> None:
    hostile = "/a '\"$(touch /x)`b`\\ c"
    target = Target(id=1, at="local:", properties=hostile, log_dirs=(hostile, "/b"))
    text = script(target, ["orders"], 30, light=True).decode()
    head = text[: text.index("# The part of")]
    wishes = " ".join(f'"$want_{name}"' for name in ("properties", "dirs", "tails", "minutes", "light"))
    shown = subprocess.run(
        ["sh", "-s"], input=f'{head}printf "%s|" {wishes}',
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert shown.stdout == f"{hostile}|{hostile}\n/b|orders|30|yes|"


def fences(kind: str) -> list[str]:
    """The examples of the page in a language."""
    return re.findall(rf"```{kind}\n(.*?)```", (ROOT / "docs" / "collect.md").read_text(), re.DOTALL)


def test_the_nodes_of_the_page() -> None:
    commands = [
        line for fence in fences("sh") for line in fence.replace("\\\n", " ").splitlines() if " collect " in line
    ]
    nodes = [(text, command) for command in commands for text in re.findall(r"--node (\S+)", command)]
    assert len(nodes) == 13
    for text, command in nodes:
        via = re.search(r"--via '([^']+)'", command)
        parse_node(text).command(via[1] if via else None)


def test_the_file_of_nodes_of_the_page(tmp_path: Path) -> None:
    (text,) = fences("toml")
    (tmp_path / "nodes.toml").write_text(text)
    nodes, via = read_nodes(tmp_path / "nodes.toml")
    check_targets(nodes, via)
    assert [node.id for node in nodes] == [3000, 1]


FOLDER = ROOT / "examples" / "schedule"
MANIFEST = FOLDER / "strimzi.yaml"
UNITS = ("kraft-forensics-collect", "kraft-forensics-collect-light")
FOLDERS = dict(zip(UNITS, ("kraft-forensics/captures", "kraft-forensics/rounds"), strict=True))
PROGRAMS = Path(sys.executable).parent

SCHEMA = json.loads(Path(__file__).with_name("kubernetes-1.34.json").read_text(encoding="utf-8"))


def objects(text: str) -> dict[tuple[str, str], Any]:
    """The manifest's objects by kind and name."""
    return {(found["kind"], found["metadata"]["name"]): found for found in yaml.safe_load_all(text)}


def faults_of(text: str) -> list[str]:
    """What Kubernetes' API would refuse: unknown fields, required ones that are missing, values of another type."""
    found = []
    for (kind, name), one in objects(text).items():
        of_kind = Draft202012Validator({**SCHEMA, "oneOf": [{"$ref": f"#/$defs/{kind}"}]})
        for error in of_kind.iter_errors(one):
            whole = [*error.context, error] if error.context else [error]
            found += [f"{kind} {name} {each.json_path}: {each.message}" for each in whole]
    return found


@pytest.fixture(scope="module")
def local_nodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with two nodes of a real cluster, as folders of this machine."""
    folder = tmp_path_factory.mktemp("nodes")
    places = nodes(folder / "cluster", (3000, 1))
    entries = (f'[[node]]\nid = {node}\nat = "local:"\npath = "{place}"\n' for node, place in places.items())
    file = folder / "nodes.toml"
    file.write_text("\n".join(entries))
    return file


def collected(command: list[str], folder: Path, **more: str) -> Path:
    """The capture that a command has made in a folder."""
    environment = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", **more}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [path] = folder.iterdir()
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}T\d{6}Z-[a-z-]+\.tar\.gz", path.name)
    with open_capture(path) as opened:
        assert opened.cluster_id or "-light" in path.name
    return path


# systemd -------------------------------------------------------------------------------------------------------------


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read_string((FOLDER / name).read_text(encoding="utf-8"))
    return parser


def start_of(name: str, instance: str) -> list[str]:
    """The words of ExecStart as systemd passes them on: quotes, then specifiers, then dollar signs."""
    words = shlex.split(unit(name)["Service"]["ExecStart"])
    words = [re.sub("%([%i])", lambda found: {"%": "%", "i": instance}[found[1]], word) for word in words]
    assert not [word for word in words if re.search(r"(?<!\$)\$(\$\$)*(?!\$)", word)], (
        "a variable that systemd replaces"
    )
    return [word.replace("$$", "$") for word in words]


@pytest.mark.parametrize("name", UNITS)
def test_a_service_collects(name: str, tmp_path: Path, local_nodes: Path) -> None:
    shell, option, line = start_of(f"{name}@.service", "payments")
    assert unit(f"{name}@.service")["Service"]["StateDirectory"] == FOLDERS[name] + "/%i"
    line = line.replace("/etc/kraft-forensics/payments.toml", str(local_nodes))
    line = line.replace("/opt/kraft-forensics/bin", str(PROGRAMS))
    (tmp_path / "state").mkdir()
    path = collected([shell, option, line], tmp_path / "state", STATE_DIRECTORY=str(tmp_path / "state"))
    assert path.name.endswith("-payments-light.tar.gz" if "light" in name else "-payments.tar.gz")


def test_systemd_finds_no_fault(tmp_path: Path) -> None:
    """Where systemd is. Its timers name their services by the same name everywhere."""
    assert {path.name for path in FOLDER.glob("*@*")} == {
        f"{n}@.{kind}" for n in UNITS for kind in ("service", "timer")
    }
    units = [f"{name}@payments.{kind}" for name in UNITS for kind in ("service", "timer")]
    for name in units:
        shutil.copy(FOLDER / name.replace("payments", ""), tmp_path / name)
    if program := shutil.which("systemd-analyze"):
        done = subprocess.run([program, "verify", *(tmp_path / name for name in units)], capture_output=True, text=True)
        ours = [line for line in done.stderr.splitlines() if "kraft-forensics" in line]
        assert (done.returncode, ours) == (0, [])
    assert [unit(f"{name}@.timer")["Timer"]["OnCalendar"] for name in UNITS] == [
        "*-*-* 23:00:00 UTC",
        "*-*-* *:30:00 UTC",
    ]


# Kubernetes ----------------------------------------------------------------------------------------------------------


def test_the_manifest_has_only_fields_of_the_api() -> None:
    assert faults_of(MANIFEST.read_text(encoding="utf-8")) == []


def test_the_role_has_the_pods_of_the_file_of_nodes_and_no_others(tmp_path: Path) -> None:
    found = objects(MANIFEST.read_text(encoding="utf-8"))
    file = tmp_path / "nodes.toml"
    file.write_text(found["ConfigMap", "kraft-forensics"]["data"]["nodes.toml"])
    targets, via = read_nodes(file)
    check_targets(targets, via)
    pods = [target.at.removeprefix("kubectl:kafka/").removesuffix("/kafka") for target in targets]
    assert [int(pod.rpartition("-")[2]) for pod in pods] == [target.id for target in targets]
    assert found["Role", "kraft-forensics"]["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": pods},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"], "resourceNames": pods},
    ]
    # What kubectl asks of the API for the two commands of a node.
    assert targets[0].command(None)[:3] == ["kubectl", "exec", "-i"]
    assert (targets[0].host_command() or [])[:3] == ["kubectl", "get", "pod"]


@pytest.mark.parametrize("name", UNITS)
def test_a_cron_job_collects(name: str, tmp_path: Path, local_nodes: Path) -> None:
    found = objects(MANIFEST.read_text(encoding="utf-8"))
    pod = found["CronJob", name]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert pod["serviceAccountName"] in {one for kind, one in found if kind == "ServiceAccount"}
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert pod["volumes"][0]["configMap"]["name"] in {one for kind, one in found if kind == "ConfigMap"}
    claim = pod["volumes"][1]["persistentVolumeClaim"]["claimName"]
    assert claim in {one for kind, one in found if kind == "PersistentVolumeClaim"}
    [line] = container["args"]
    line = line.replace("$$", "$").replace("/etc/kraft-forensics/nodes.toml", str(local_nodes))
    line = line.replace("/data", str(tmp_path / "kraft-forensics"))
    path = collected([*container["command"], line], tmp_path / FOLDERS[name] / "my-cluster")
    assert path.name.endswith("-my-cluster-light.tar.gz" if "light" in name else "-my-cluster.tar.gz")
