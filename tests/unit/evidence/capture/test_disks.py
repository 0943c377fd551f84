"""Which log directories are certainly on disks of the machine."""

from typing import Any

import pytest

from evidence.capture.manifest import CapturedNode, Disk
from tests.support.golden import cases

SSD = {"file_system": "ext4", "device": "nvme0n1", "transport": "pcie", "model": "SAMSUNG MZQL23T8HCLS-00A07"}


@pytest.mark.parametrize("case", cases("disks"))
def test_a_disk(case: dict[str, Any]) -> None:
    """In a virtual machine a disk may be a volume that was on another machine before, but not the system's own disk."""
    assert Disk(directory="logdir0", **case["facts"]).is_local(case["is_virtual"]) is case["is_local"]


def test_of_several_disks_the_worst_counts() -> None:
    local, unknown, remote = (Disk(directory="a", **facts) for facts in (SSD, {}, {"file_system": "nfs"}))
    for disks, expected in (
        ((local, local), True),
        ((local, unknown), None),
        ((local, unknown, remote), False),
        ((), None),
    ):
        assert CapturedNode(id=1, disks=disks, is_virtual=False).local_disks is expected
