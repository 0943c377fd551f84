"""Which nodes, how to reach them, and what is refused."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from jobs.collect.targets import (
    CollectError,
    NodePaths,
    Target,
    check_targets,
    check_topics,
    parse_node,
    read_nodes,
    script,
)
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
    target = parse_node(text, NodePaths())
    assert target.command("'my ssh' -p 2222 {host} sudo") == command
    assert target.path == path


@pytest.mark.parametrize(
    "text",
    [
        "ssh:host",
        "x=ssh:host",
        "1=ftp:host",
        "1=ssh:",
        "1=ssh:-oProxyCommand=touch",
        "1=ssh:host; touch x",
        "1=ssh:host name",
        "1=kubectl:pod",
        "1=kubectl:--all/pod",
        "1=kubectl:a/b/c/d",
        "1=docker:--privileged",
        "1=docker:a b",
        "1=ssh:host:/etc\n/kafka",
        "99999999999=local:",
        "9999999999=local:",
    ],
)
def test_what_is_no_node(text: str) -> None:
    with pytest.raises(CollectError):
        parse_node(text, NodePaths()).command("ssh {host}")


def test_an_own_command_needs_a_place_for_the_host() -> None:
    target = parse_node("1=via:host", NodePaths())
    for via in (None, "", "ssh host", "ssh '{host}"):
        with pytest.raises(CollectError, match="--via"):
            target.command(via)


def test_nodes_are_named_once() -> None:
    with pytest.raises(CollectError, match="at least one node"):
        check_targets([], None)
    with pytest.raises(CollectError, match="node 1 is named twice"):
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
    with pytest.raises(CollectError, match=r"nodes\.toml: "):
        read_nodes(tmp_path / "nodes.toml")


@pytest.mark.parametrize("topic", ["a b", "*", "../x", "", "a\nb", "'"])
def test_a_topic_that_kafka_does_not_allow(topic: str) -> None:
    with pytest.raises(CollectError, match="not the name of a topic"):
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
        parse_node(text, NodePaths()).command(via[1] if via else None)


def test_the_file_of_nodes_of_the_page(tmp_path: Path) -> None:
    (text,) = fences("toml")
    (tmp_path / "nodes.toml").write_text(text)
    nodes, via = read_nodes(tmp_path / "nodes.toml")
    check_targets(nodes, via)
    assert [node.id for node in nodes] == [3000, 1]
