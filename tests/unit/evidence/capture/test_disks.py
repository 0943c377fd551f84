"""Which log directories are certainly on disks of the machine."""

from __future__ import annotations

from typing import Any

import pytest

from evidence.capture.manifest import CapturedNode, Disk

SSD = {"file_system": "ext4", "device": "nvme0n1", "transport": "pcie", "model": "SAMSUNG MZQL23T8HCLS-00A07"}


@pytest.mark.parametrize(
    ("facts", "is_virtual", "expected"),
    [
        (SSD, False, True),
        ({**SSD, "transport": "sata"}, False, True),
        # Inside a virtual machine any disk may be a volume that was on another machine before.
        (SSD, True, None),
        (SSD, None, None),
        ({"file_system": "xfs", "device": "vda", "transport": "virtio"}, True, None),
        # The system's own disk has been here since the machine started.
        ({"file_system": "xfs", "device": "vda", "transport": "virtio", "is_system_disk": True}, True, True),
        ({"file_system": "xfs", "device": "vdb", "transport": "virtio", "is_system_disk": False}, True, None),
        ({**SSD, "model": "Amazon EC2 NVMe Instance Storage              "}, True, True),
        ({**SSD, "model": "Amazon Elastic Block Store"}, False, None),
        ({**SSD, "model": "Mellanox BlueField NVMe SNAP Controller"}, False, None),
        ({**SSD, "model": None}, False, None),
        ({**SSD, "transport": "tcp"}, False, False),
        ({**SSD, "transport": "iscsi"}, False, False),
        ({**SSD, "transport": "usb"}, False, None),
        ({"file_system": "nfs4"}, False, False),
        ({"file_system": "fuse.sshfs"}, False, False),
        ({"file_system": "overlay"}, False, False),
        ({"file_system": "tmpfs"}, False, False),
        ({"file_system": "zfs"}, False, None),
        ({}, False, None),
    ],
)
def test_a_disk(facts: dict[str, Any], is_virtual: bool | None, expected: bool | None) -> None:
    assert Disk(directory="logdir0", **facts).is_local(is_virtual) is expected


def test_of_several_disks_the_worst_counts() -> None:
    local, unknown, remote = (Disk(directory="a", **facts) for facts in (SSD, {}, {"file_system": "nfs"}))
    for disks, expected in (
        ((local, local), True),
        ((local, unknown), None),
        ((local, unknown, remote), False),
        ((), None),
    ):
        assert CapturedNode(id=1, disks=disks, is_virtual=False).local_disks is expected
