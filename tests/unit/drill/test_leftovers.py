"""What a killed drill leaves is known by its name, and only that."""

from __future__ import annotations

import os
import subprocess

from drill.disks import left_mounted
from drill.network import Loopback, left_by_the_dead, named


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
    places = Loopback([1, 2, 3000])
    addresses = {places.address(node) for node in (1, 2, 3000)}
    assert len(addresses) == 3
    assert {address.partition(":")[0] for address in addresses} == {"127.0.0.1"}
    assert places.inside(1) == []
