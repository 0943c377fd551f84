"""A drill that is killed leaves nothing behind."""

import subprocess
import sys
import time
from pathlib import Path

from drill.network import Places
from drill.nodes import wait_for


def test_nodes_on_loopback_have_ports_of_their_own() -> None:
    places = Places([1, 2, 3000])
    addresses = {of(node) for node in (1, 2, 3000) for of in (places.address, places.quorum_address)}
    assert len(addresses) == 6
    assert {address.partition(":")[0] for address in addresses} == {"127.0.0.1"}
    assert places.inside(1) == []


_STARTS_A_NODE = """
import subprocess, sys, time
from drill.errors import DIES_WITH_THIS, finally_run
with finally_run(f"touch {sys.argv[1]}"):
    print(subprocess.Popen([*DIES_WITH_THIS, "sleep", "600"]).pid, flush=True)
    time.sleep(600)
"""


def test_a_node_dies_with_a_drill_that_is_killed_and_what_it_made_is_removed(tmp_path: Path) -> None:
    words = [sys.executable, "-c", _STARTS_A_NODE, str(tmp_path / "removed")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as drill:
        assert drill.stdout is not None
        node = Path("/proc") / drill.stdout.readline().strip()
        while not (node / "cmdline").read_text().startswith("sleep"):  # setpriv has become it
            time.sleep(0.05)
        assert not (tmp_path / "removed").exists()
        drill.kill()
    wait_for("the node has ended", lambda: _has_ended(node))
    wait_for("the command has run", (tmp_path / "removed").exists)


def _has_ended(process: Path) -> bool:
    try:
        return " Z " in (process / "stat").read_text()  # one that nobody waits for stays as a zombie
    except OSError:
        return True
