"""A few faults of `make test-faults` (tests/faults) on real processes: one of each kind."""

import errno

import pytest

from tests.faults import disks, kills, races, releases, sizes
from tests.faults.ground import Ground, Trial, prepared


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    return prepared(tmp_path_factory.mktemp("faults"))


@pytest.mark.parametrize(
    "trial",
    [
        pytest.param(kills.at_step("judging"), id="kill -9"),
        pytest.param(disks.quota(20_000), id="quota"),
        pytest.param(disks.error(errno.EIO, 0.4), id="EIO"),
        pytest.param(races.same(3, is_new=False), id="3 runs at once"),
        pytest.param(releases.newer_protocol("findings"), id="newer release"),
        pytest.param(sizes.epochs(sizes.COUNTED, sizes.LARGER, "limits.partition_lines"), id="50 M lines"),
    ],
)
def test_a_fault_is_survived(ground: Ground, trial: Trial) -> None:
    assert trial(ground) > 0
