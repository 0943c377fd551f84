"""What a log directory lies on, as `collect` notes it, and whether that is certainly a part of the machine.

A machine's boot time says what became of a process' writes only if the log directory cannot have been moved to this
machine from another one since. So an attached volume of a cloud, which looks like a local disk, is not taken for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_Text = Annotated[str, Field(max_length=255)]
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

    directory: _Text
    file_system: _Text | None = None
    device: _Text | None = None
    model: _Text | None = None
    transport: _Text | None = None
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


def all_local(disks: Iterable[Disk], is_virtual: bool | None) -> bool | None:
    """Whether every log directory is on local disks: False if one is not, None if nothing is known of one."""
    found = {disk.is_local(is_virtual) for disk in disks}
    if False in found:
        return False
    return True if found == {True} else None
