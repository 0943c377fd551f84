"""Collect from several nodes at once, and write what came as a capture: a folder or an archive that `run` reads."""

import hmac
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from operator import methodcaller
from pathlib import Path
from typing import Any
from uuid import UUID

from evidence.capture.archive import is_packed
from evidence.capture.files import sha256_of
from evidence.capture.manifest import read_manifest
from evidence.errors import KraftForensicsError, UsageError
from evidence.limits import MAX_DURATION_MS
from evidence.text_files import read_properties
from jobs.collect.frames import shown
from jobs.collect.session import Visit, visit
from jobs.collect.targets import Target, check_targets, script

Progress = Callable[[str], None]

MANIFEST, HASHES = "capture.json", "SHA256SUMS"
_COMPRESSIONS = {".tar.gz": "gz", ".tgz": "gz", ".tar.xz": "xz", ".txz": "xz"}
_MOST_AT_ONCE = 16
_HOST_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}")
_HOST_TIMEOUT_S = 15
_SECONDS = re.compile(r"[0-9]{1,11}")
_BOOT = re.compile(r"^([0-9a-f]{32}) ([0-9]{1,16}) ([0-9]{1,16})$", re.MULTILINE)
_MOST_TEXT = 255


@dataclass(frozen=True, slots=True)
class Wishes:
    """What to collect beside the nodes. tails: topics of which every replica's last segment is copied. replicas:
    partitions of which whole logs are copied, e.g. ledger-0. since_ms: how old a rotated log may be; None: all. via:
    the command of `via:` nodes. light: leave out the metadata log and the nodes' own logs."""

    tails: tuple[str, ...] = ()
    since_ms: int | None = None
    via: str | None = None
    timeout_s: float = 600
    light: bool = False
    replicas: tuple[str, ...] = ()

    @property
    def producers_data(self) -> bool:
        """Whether keys and values are copied: then only the owner may read the capture."""
        return bool(self.tails or self.replicas)


def check_output(path: Path) -> None:
    """Errors: UsageError for another archive; KraftForensicsError if the path exists, or its folder does not."""
    if is_packed(path) and not path.name.endswith(tuple(_COMPRESSIONS)):
        raise UsageError(f"{path}: a capture is a folder, a .tar.gz or a .tar.xz: give another --output.")
    if path.exists() or path.is_symlink():
        raise KraftForensicsError(f"{path}: exists already. A capture is never changed: give another --output.")
    if not path.absolute().parent.is_dir():
        raise KraftForensicsError(f"{path}: there is no folder {path.absolute().parent} to write it into.")


def collect(targets: Sequence[Target], wishes: Wishes, output: Path, now_ms: int, progress: Progress) -> list[str]:
    """Visit all nodes and write the capture; returns what is missing in it and why, by node. now_ms: the time to which
    wishes.since_ms is compared.

    Errors: KraftForensicsError for nodes or an output that cannot be used, or if no node sent a file; nothing is left
    then, but what came if it cannot be written as a capture: nobody may be able to collect it again.
    """
    check_targets(targets, wishes.via)
    check_output(output)
    suffix = next((suffix for suffix in _COMPRESSIONS if output.name.endswith(suffix)), "")
    minutes = None if wishes.since_ms is None else max(1, -((wishes.since_ms - now_ms) // 60_000) + 1)
    work = Path(tempfile.mkdtemp(prefix=f".{output.name}-", dir=output.absolute().parent))
    try:
        folder = work / (output.name.removesuffix(suffix) or "capture")
        folder.mkdir()
        with ThreadPoolExecutor(min(len(targets), _MOST_AT_ONCE)) as pool:
            visits = list(pool.map(partial(_visit_one, folder, wishes, minutes, progress), targets))
        if not any(found.received.files for found in visits):
            reasons = [line for found in visits for line in _problems(found)] or ["nothing was found there"]
            raise KraftForensicsError(f"no node sent a file: {'; '.join(reasons)}")
        _write_manifest(folder, visits)
        _write_hashes(folder)
        if wishes.producers_data:
            for path in (folder, *folder.rglob("*")):
                path.chmod(0o700 if path.is_dir() else 0o600)
        if suffix:
            folder = _packed(folder, work / f"packed{suffix}", _COMPRESSIONS[suffix], wishes.producers_data)
        folder.rename(output)  # in one step
    except OSError as error:
        raise KraftForensicsError(f"{output}: cannot be written: {error.strerror}. What came is in {work}.") from error
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    shutil.rmtree(work, ignore_errors=True)
    sent = {Path(name).parent.name for found in visits for name in found.received.files if name.endswith(".log")}
    unsent = (f"{n}: no log directory that was read has this replica" for n in wishes.replicas if n not in sent)
    return [*(line for found in visits for line in _problems(found)), *unsent]


def _visit_one(folder: Path, wishes: Wishes, minutes: int | None, progress: Progress, target: Target) -> Visit:
    place = folder / f"node-{target.id}"
    place.mkdir()
    sent = script(target, wishes.tails, minutes, wishes.light, wishes.replicas)
    found = visit(target.id, target.command(wishes.via), sent, place, wishes.timeout_s)
    if (host := _host(target)) is not None:
        found.received.facts["node_name"] = host
    found.received.missing += [*_started_meanwhile(place, found), *wrong_node(place, target.id, found.received.files)]
    state = f"failed: {found.failure}" if found.failure else "done"
    progress(f"node {target.id}: {state}, {len(found.received.files)} files")
    return found


def _started_meanwhile(folder: Path, found: Visit) -> list[str]:
    """Remove the marker of a clean stop that was no longer there in the end: it would vouch for files that the next
    session has changed."""
    lines = []
    for name in sorted(name for name in found.received.files if name.endswith("/.kafka_cleanshutdown")):
        place = name.removesuffix("/.kafka_cleanshutdown")
        before, after = (found.received.facts.get(f"stopped-{when}:{place}") for when in ("before", "after"))
        if before is None or before != after:
            (folder / name).unlink()
            found.received.files.remove(name)
            lines.append(f"{name}: left out: the broker may have started while its files were read")
    return lines


def wrong_node(folder: Path, node_id: int, files: Iterable[str]) -> list[str]:
    """meta.properties of another node than the one that was named, among files of a folder."""
    lines = []
    for name in sorted(name for name in files if name.endswith("/meta.properties")):
        properties = read_properties((folder / name).read_bytes())
        node = properties.get("node.id", properties.get("broker.id", str(node_id)))
        if node != str(node_id):
            lines.append(f"{shown(name)}: is of node {shown(node)}, its files count as that node's")
    return lines


def _problems(found: Visit) -> list[str]:
    failure = [f"node {found.node_id}: {found.failure}"] if found.failure else []
    return [*failure, *(f"node {found.node_id}: {line}" for line in found.received.missing)]


def _write_manifest(folder: Path, visits: Sequence[Visit]) -> None:
    started = [found.started_ms for found in visits if found.started_ms is not None]
    ended = [found.ended_ms for found in visits if found.ended_ms is not None]
    manifest: dict[str, Any] = {
        "collected_by": f"kraft-forensics {version('kraft-forensics')}",
        "captured_at": min(started),
        "snapshot_duration_ms": max(ended) - min(started),
        "clock_error_ms": _clock_error_ms(visits),
        "nodes": [_node(found) for found in visits],
    }
    text = json.dumps({name: value for name, value in manifest.items() if value is not None}, indent=1) + "\n"
    read_manifest(text.encode(), MANIFEST)
    (folder / MANIFEST).write_text(text, encoding="utf-8")


def _node(found: Visit) -> dict[str, Any]:
    facts = found.received.facts
    values: dict[str, Any] = {"id": found.node_id, "path": f"node-{found.node_id}"}
    if found.started_ms is not None and found.ended_ms is not None:
        values |= {"captured_at": found.started_ms, "snapshot_duration_ms": found.ended_ms - found.started_ms}
    if found.clock is not None:
        values |= {"clock_offset_ms": found.clock.offset_ms, "clock_offset_error_ms": found.clock.error_ms}
    if facts.get("log_zone") == "UTC":
        values["log_utc_offset"] = "Z"
    values |= {name: facts[name] for name in ("zone", "roles") if facts.get(name)}
    values |= _machine(found)
    written = {name.removeprefix("written:"): at for name, at in facts.items() if name.startswith("written:")}
    if times := {name: int(at) * 1000 for name, at in written.items() if _SECONDS.fullmatch(at)}:
        values["written"] = times
    missing = [*([f"the rest: {found.failure}"] if found.failure else []), *found.received.missing]
    return {**values, "missing": missing}


def _host(target: Target) -> str | None:
    """The host of a node's container, if the program that reaches the node knows it."""
    command = target.host_command()
    if command is None:
        return None
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_HOST_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    name = done.stdout.decode("utf-8", "replace").strip()
    return name if done.returncode == 0 and _HOST_NAME.fullmatch(name) else None


def _machine(found: Visit) -> dict[str, Any]:
    """What is known of the node's machine: since when it runs, which one it is, what its log directories lie on."""
    facts = found.received.facts
    values: dict[str, Any] = {}
    uptime = facts.get("uptime", "").partition(".")[0]
    if uptime.isdecimal() and len(uptime) < 10:
        values |= {"uptime_s": int(uptime), "uptime_read_by": found.received.told_ms["uptime"]}
    if machine_id := facts.get("machine_id"):
        # machine-id(5) asks not to pass the id itself on.
        values["machine_id"] = hmac.digest(machine_id.encode(), b"kraft-forensics", "sha256").hex()[:32]
    if facts.get("node_name", "localhost") != "localhost":
        values["node_name"] = facts["node_name"][:_MOST_TEXT]
    if facts.get("is_virtual") in ("yes", "no"):
        values["is_virtual"] = facts["is_virtual"] == "yes"
    disks = [
        _disk(key.removeprefix("disks:"), line)
        for key in facts
        if key.startswith("disks:")
        for line in facts[key].splitlines()
    ]
    boots = [
        {"boot_id": str(UUID(boot)), "at": int(at_us) // 1_000, "uptime_s": int(ran_us) // 1_000_000}
        for boot, at_us, ran_us in _BOOT.findall(facts.get("boots", ""))
    ]
    return values | {name: found for name, found in (("disks", disks), ("boots", boots)) if found}


def _disk(directory: str, line: str) -> dict[str, Any]:
    """What node.sh says of a disk: file system, device, transport, whether it is the system's, model."""
    names = ("file_system", "device", "transport", "is_system_disk", "model")
    parts = dict(zip(names, (part.strip()[:_MOST_TEXT] for part in line.split("\t", 4)), strict=False))
    system = {"yes": True, "no": False}.get(parts.pop("is_system_disk", ""))
    values = {"directory": directory[:_MOST_TEXT], **parts, "is_system_disk": system}
    return {name: value for name, value in values.items() if value not in ("", None)}


def _clock_error_ms(visits: Sequence[Visit]) -> int | None:
    """How far this machine's clock, by which all times of the capture are, may be from the controllers' clocks. None if
    a controller's clock was not measured or is off by more than a manifest may say, or no node is known to be one."""
    controllers = [found for found in visits if "controller" in found.received.facts.get("roles", "").split(",")]
    measured = [abs(c.offset_ms) + c.error_ms for c in (found.clock for found in controllers) if c is not None]
    largest = max(measured, default=MAX_DURATION_MS + 1)
    return largest if len(measured) == len(controllers) and largest <= MAX_DURATION_MS else None


def _write_hashes(folder: Path) -> None:
    """SHA256SUMS as `sha256sum -c` reads it: a name with a backslash or a line end is escaped, and marked."""
    lines = []
    for path in sorted(_files(folder)):
        name = os.fsencode(path.relative_to(folder))
        escaped = name.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
        mark = b"\\" if escaped != name else b""
        lines.append(mark + sha256_of(path).encode() + b"  " + escaped + b"\n")
    (folder / HASHES).write_bytes(b"".join(lines))


def _files(folder: Path) -> list[Path]:
    return [Path(place, name) for place, _, names in os.walk(folder) for name in names]


def _packed(folder: Path, packed: Path, compression: str, private: bool) -> Path:
    """An archive of a folder. A file's time has its fraction there: until then it was read."""
    with tarfile.open(packed, f"w:{compression}", format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]
        nobodys = methodcaller("replace", mode=0o600, uid=0, gid=0, uname="", gname="", deep=False)
        for path in sorted(_files(folder)):
            tar.add(path, f"{folder.name}/{path.relative_to(folder)}", filter=nobodys)
    if private:
        packed.chmod(0o600)
    return packed
