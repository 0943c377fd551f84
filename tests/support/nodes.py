"""Folders that stand for nodes of a live cluster, and shells that stand for the way to them."""

import hashlib
import os
import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path

from tests.support.paths import capture

NAME = "logs-unclean"
CONTROLLERS, BROKERS = (3000, 3001, 3002), (1, 2, 3, 4)
# Debian's sh is dash.
SHELLS = [name for name in ("sh", "bash", "busybox") if shutil.which(name)]


def ssh_like(shell: str) -> str:
    """A command for --via that joins its words and gives them to a shell, as sshd does."""
    return f"sh -c 'NODE=$1; shift; exec {shell} -c \"$*\"' ssh {{host}}"


def reached_by(shell: str, folder: Path) -> str:
    """A command for --via with one of SHELLS; that of busybox has its programs in a new folder, and no others."""
    if shell != "busybox":
        return ssh_like(shell)
    folder.mkdir()
    tools = "sh cat head wc ls od tr awk find date cksum md5sum sha256sum dd tail"
    for name in tools.split():
        (folder / name).symlink_to(str(shutil.which("busybox")))
    return f"env -i PATH={folder} NODE={{host}}"


def program(file: Path, body: str) -> Path:
    """A shell script that stands for a program."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o700)
    return file


def nodes(folder: Path, chosen: Iterable[int] = (*CONTROLLERS, *BROKERS)) -> dict[int, Path]:
    """Nodes of a real cluster, by id: each a folder with its log directory and its own logs, as found at the end."""
    found = {n: f"controllers/{n}" if n in CONTROLLERS else f"disks/broker-{n}" for n in chosen}
    logs = {n: f"logs/{'controller' if n in CONTROLLERS else 'broker'}-{n}" for n in chosen}
    wanted = tuple(f"{NAME}/{place}/" for place in (*found.values(), *logs.values()))
    with tarfile.open(capture(NAME)) as tar:
        members = [m for m in tar if m.isreg() and m.name.startswith(wanted) and not m.name.endswith("/boot_id")]
        tar.extractall(folder, members=members, filter="data")
    for node, place in logs.items():
        (folder / NAME / place).rename(folder / NAME / found[node] / "logs")
    return {node: folder / NAME / place for node, place in found.items()}


def state(folder: Path) -> dict[str, tuple[str, int]]:
    """SHA-256 and modification time of each regular file."""
    return {
        str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in (Path(place, name) for place, _, names in os.walk(folder) for name in names)
        if path.is_file()
    }
