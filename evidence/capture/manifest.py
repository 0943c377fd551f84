"""Read the capture manifest: facts that the files do not hold, from the person who made the capture.

It is `capture.toml` or `capture.json` in the capture's top folder; docs/evidence.md has an example. It names what a log
directory lies on: a machine's boot time says what became of a process' writes only if the log directory cannot have
been moved to this machine from another one since. So an attached volume of a cloud, which looks like a local disk, is
not taken for one.
"""

import json
import re
import tomllib
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from evidence.errors import CaptureError
from evidence.limits import MAX_DURATION_MS, MAX_TIME_MS
from evidence.strict_json import distinct

_ShortText = Annotated[str, Field(max_length=255)]
_ELSEWHERE = re.compile(r"nfs\d*|cifs|smb\d*|ceph|9p|afs|glusterfs|lustre|gpfs|beegfs|ocfs2|gfs2|virtiofs|fuse(\..*)?")
_NOT_KEPT = frozenset(("overlay", "aufs", "tmpfs", "ramfs"))
_NETWORK = frozenset(("fc", "iscsi", "tcp", "rdma", "loop", "nbd", "rbd"))
_LOCAL = frozenset(("sata", "pcie"))
# Disks inside a virtual machine's host, which do not outlive the virtual machine there: names by their clouds.
_OF_HOST = frozenset(("Amazon EC2 NVMe Instance Storage", "Microsoft NVMe Direct Disk", "nvme_card"))
# Volumes over a network that look like disks on the PCI bus, on machines without a hypervisor, too.
_VOLUME = re.compile(
    r"elastic block store|msft nvme accelerator|nvme_card-pd|persistent|snap|virtual|qemu", re.IGNORECASE
)


class Disk(BaseModel):
    """A block device under a log directory; a directory on several devices (LVM, RAID) has several of them.

    directory: its name in the capture. file_system: its type, by /proc/self/mountinfo. device: Linux' name. transport:
    sata, sas, pcie, usb, virtio, vmbus, fc, iscsi, tcp, rdma, nbd, rbd or loop. is_system_disk: whether the machine's
    root file system is on it, which no other machine can have used since this one started. None: not known.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    directory: _ShortText
    file_system: _ShortText | None = None
    device: _ShortText | None = None
    model: _ShortText | None = None
    transport: _ShortText | None = None
    is_system_disk: bool | None = None

    def is_local(self, is_virtual: bool | None) -> bool | None:
        """Whether it certainly is a part of this machine (True) or is not (False); None if neither is certain.
        is_virtual: whether the machine is a virtual one; None if unknown."""
        if _ELSEWHERE.fullmatch(self.file_system or "") or self.file_system in _NOT_KEPT or self.transport in _NETWORK:
            return False
        model = (self.model or "").strip()
        if self.is_system_disk or model in _OF_HOST:
            return True
        is_plain = self.transport in _LOCAL and model != "" and not _VOLUME.search(model)
        return True if is_plain and is_virtual is False else None


NAMES = ("capture.toml", "capture.json")
_SECOND_MS = 1000
_OFFSET = re.compile(r"Z|[+-](?P<hours>0\d|1[0-4]):?(?P<minutes>[0-5]\d)")


def _milliseconds(value: Any) -> Any:
    """A time as milliseconds since the Unix epoch: a number, or a date with a zone."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("a time needs its zone, e.g. 2026-11-20T10:00:00Z")
        return round((value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
    return value


def _text(value: Any) -> Any:
    """A config value as in Kafka's properties files."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _utc_offset(value: Any) -> Any:
    """A zone's offset, `+05:30` or `Z`, in ms."""
    found = _OFFSET.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError('a zone is its offset from UTC, e.g. "+05:30" or "Z"')
    if value == "Z":
        return 0
    minutes = int(found["hours"]) * 60 + int(found["minutes"])
    return (-minutes if value[0] == "-" else minutes) * 60_000


Time = Annotated[int, BeforeValidator(_milliseconds), Field(ge=0, le=MAX_TIME_MS)]
Duration = Annotated[int, Field(ge=0, le=MAX_DURATION_MS)]
UtcOffset = Annotated[int, BeforeValidator(_utc_offset)]
_Text = Annotated[str, Field(min_length=1, max_length=255)]
_Seconds = Annotated[int, Field(ge=0, le=MAX_TIME_MS // 1000)]
Configs = dict[str, Annotated[str, BeforeValidator(_text)]]


class _Facts(BaseModel):
    """Facts about the whole capture or one node.

    captured_at: when copying began (ms since the Unix epoch, or a date with a zone); a number of milliseconds in a
    file's path takes precedence. snapshot_duration_ms: how long one round of copying took. clock_error_ms: the largest
    difference from the controllers' clocks. Both are at most 365 days, and no time is after the year 9999. configs:
    static configs; a captured server.properties takes precedence. log_utc_offset: the zone of the times in the nodes'
    own logs, where those do not print it, as its offset from UTC ("+05:30"); in ms.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    captured_at: Time | None = None
    snapshot_duration_ms: Duration | None = None
    clock_error_ms: Duration | None = None
    kafka_release: str | None = None
    log_utc_offset: UtcOffset | None = None
    configs: Configs = {}


class Boot(BaseModel):
    """A run of a node's machine, by the last entry of its journal: when that was written, by the node's clock, and how
    many whole seconds the machine had run by then."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    boot_id: Annotated[str, Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
    at: Time
    uptime_s: _Seconds


class CapturedNode(_Facts):
    """[[nodes]]: a node's folder inside the capture, and the facts about that node.

    What `collect` notes: clock_offset_ms, clock_offset_error_ms: how far the node's clock was ahead of the capturer's,
    and by how much that may be wrong. zone: as `date '+%z %Z'` prints it there. roles: process.roles. missing: what was
    not collected, and why. written: when files of the node's folder were last written, by the node's clock, in whole
    seconds (as ms): up to a second later.

    Of its machine: uptime_s: whole seconds since it started. uptime_read_by: when that had been read, by the capturer's
    clock; it was read after captured_at. machine_id: a digest of /etc/machine-id. node_name: the Kubernetes node, the
    host of the container, or the machine's host name. is_virtual: whether a hypervisor runs it. disks: what the log
    directories lie on. boots: runs that its journal knows; only if that lies on the disks of the system.
    """

    id: Annotated[int, Field(ge=0, lt=1 << 31)]
    path: str | None = None
    clock_offset_ms: Annotated[int, Field(ge=-MAX_TIME_MS, le=MAX_TIME_MS)] | None = None
    clock_offset_error_ms: Annotated[int, Field(ge=0, le=MAX_TIME_MS)] | None = None
    zone: str | None = None
    uptime_s: _Seconds | None = None
    uptime_read_by: Time | None = None
    machine_id: _Text | None = None
    node_name: _Text | None = None
    is_virtual: bool | None = None
    disks: tuple[Disk, ...] = ()
    boots: tuple[Boot, ...] = ()
    roles: str | None = None
    missing: tuple[str, ...] = ()
    written: dict[str, Time] = {}

    @property
    def local_disks(self) -> bool | None:
        """Whether every log directory certainly is on disks of this machine; False: one is not; None: nothing is known
        of one."""
        found = {disk.is_local(self.is_virtual) for disk in self.disks}
        return False if False in found else True if found == {True} else None

    def written_ms(self, path: PurePosixPath) -> tuple[int, int] | None:
        """When a file was last written, by the capturer's clock, and within how many ms after that; None: unknown."""
        if self.path is None or any(_ELSEWHERE.fullmatch(disk.file_system or "") for disk in self.disks):
            return None  # by the clock of a file server
        return self.by_capturer(self.written.get(str(path.relative_to(self.path))), _SECOND_MS)

    def by_capturer(self, at_ms: int | None, within_ms: int = 1) -> tuple[int, int] | None:
        """A time by the node's clock, and within how many ms after that, by the capturer's; None: unknown."""
        if at_ms is None or self.clock_offset_ms is None or self.clock_offset_error_ms is None:
            return None
        error_ms = self.clock_offset_error_ms
        return at_ms - self.clock_offset_ms - error_ms, within_ms + 2 * error_ms

    def holds(self, path: PurePosixPath) -> bool:
        """Whether a file is in this node's folder."""
        return self.path is not None and path.is_relative_to(PurePosixPath(self.path))


class Manifest(_Facts):
    """The whole manifest. collected_by: the program that made the capture, with its version."""

    cluster_id: str | None = None
    collected_by: str | None = None
    nodes: tuple[CapturedNode, ...] = ()

    def node_of(self, path: PurePosixPath) -> CapturedNode | None:
        """The node whose folder contains the file; the innermost if folders are nested."""
        found = [n for n in self.nodes if n.holds(path)]
        return max(found, key=lambda n: len(PurePosixPath(n.path or "").parts), default=None)

    def facts_of(self, path: PurePosixPath, node_id: int | None) -> tuple[_Facts, ...]:
        """The facts that apply to a file, the most specific first."""
        node = self.node_of(path) or next((n for n in self.nodes if n.id == node_id), None)
        return (self,) if node is None else (node, self)

    def static_configs(self, nodes: set[int]) -> dict[int, dict[str, str]]:
        """Static configs by node, for `nodes` and for the nodes in the manifest."""
        own = {n.id: n.configs for n in self.nodes}
        return {node: {**self.configs, **own.get(node, {})} for node in sorted(nodes | set(own))}


def read_manifest(data: bytes, path: str) -> Manifest:
    """Parse a manifest. Errors: CaptureError naming the file and the bad entry, as a manifest is written by hand."""
    try:
        text = data.decode("utf-8-sig")
        values = json.loads(text, object_pairs_hook=distinct) if path.endswith(".json") else tomllib.loads(text)
        # Strict, but with JSON's types: a list for a tuple is accepted, "3" for 3 is not.
        return Manifest.model_validate_json(json.dumps(values, default=str))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        message = first["msg"].removeprefix("Value error, ")
        raise CaptureError(
            f"{path}: {place}: {message} (docs/evidence.md lists what a manifest may contain)"
        ) from error
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"{path}: the manifest cannot be read: {error}") from error
