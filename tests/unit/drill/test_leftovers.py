"""What a killed drill leaves is known by its name, and only that."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from drill.disks import left_mounted
from drill.network import LocalPorts, left_by_the_dead, named
from drill.nodes import until_this_ends


def _dead() -> int:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


def test_only_what_has_the_name_of_a_dead_drill_is_left() -> None:
    dead = _dead()
    names = [
        f"drill-{dead}-hub",
        f"drill-{dead}-3000",
        named("hub"),
        f"drill-{dead}",
        f"my-drill-{dead}-1",
        "drill-x-1",
    ]
    assert left_by_the_dead(names) == [f"drill-{dead}-hub", f"drill-{dead}-3000"]
    assert named(3000) == f"drill-{os.getpid()}-3000"


def test_disks_of_dead_drills_are_found_among_all_mounts() -> None:
    dead = _dead()
    mounts = f"""proc /proc proc rw,nosuid 0 0
tmpfs /run tmpfs rw 0 0
drill-{dead}-disk0 /tmp/drill-a/node-1/data tmpfs rw,size=49152k 0 0
{named("disk0")} /tmp/drill-b/node-1/data tmpfs rw,size=49152k 0 0
"""
    assert left_mounted(mounts) == ["/tmp/drill-a/node-1/data"]


def test_nodes_on_loopback_have_ports_of_their_own() -> None:
    places = LocalPorts([1, 2, 3000])
    addresses = {of(node) for node in (1, 2, 3000) for of in (places.address, places.quorum_address)}
    assert len(addresses) == 6
    assert {address.partition(":")[0] for address in addresses} == {"127.0.0.1"}
    assert places.inside(1) == []


_STARTS_A_NODE = """
import subprocess, time
from drill.nodes import until_this_ends
print(subprocess.Popen([*until_this_ends(), "sleep", "600"]).pid, flush=True)
time.sleep(600)
"""


def test_a_node_dies_with_a_drill_that_is_killed() -> None:
    assert until_this_ends(), "setpriv is part of util-linux"
    with subprocess.Popen([sys.executable, "-c", _STARTS_A_NODE], stdout=subprocess.PIPE, text=True) as drill:
        assert drill.stdout is not None
        node = Path("/proc") / drill.stdout.readline().strip()
        while not (node / "cmdline").read_text().startswith("sleep"):  # setpriv has become it
            time.sleep(0.05)
        drill.kill()
    for _ in range(600):
        try:
            state = (node / "stat").read_text()
        except OSError:  # it is gone
            return
        if " Z " in state:  # one that nobody waits for stays as a zombie
            return
        time.sleep(0.05)
    raise AssertionError(f"{node.name} runs on")
