"""Two and eight runs at once: on the same capture, on different captures of a cluster, on different clusters."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from jobs.lake.lake import Lake
from tests.faults.ground import Ground, LostError, Trial, ends_clearly, removed
from tests.faults.program import started
from tests.support.digests import digests
from tests.support.paths import capture

Digests = dict[str, tuple[int, str]]
OTHER_CLUSTER = "jbod-4.0.2"
# A batch of which two runs had records to write may be listed from one capture and stored from the other.
_EITHER = "log_batches"


def trials() -> Iterator[tuple[str, str, Trial]]:
    """(fault, where, trial)."""
    for number in (2, 8):
        yield f"{number} runs at once", "the same capture, a lake that is there", same(number, is_new=False)
        yield f"{number} runs at once", "the same capture, a new lake", same(number, is_new=True)
        yield f"{number} runs at once", "two captures of one cluster", _different(number, is_one_cluster=True)
        yield f"{number} runs at once", "two clusters", _different(number, is_one_cluster=False)


def same(number: int, is_new: bool) -> Trial:
    def go(ground: Ground) -> int:
        place = ground.place()
        if is_new:
            removed(place / "lake")
        _together(place, [ground.capture] * number)
        if is_new:
            # Nothing was ingested before: compare with one run after the other.
            alone = ground.place()
            removed(alone / "lake")
            _one_after_the_other(alone, [ground.capture] * 2)
            _same_rows(place / "lake", [digests(Lake(alone / "lake"))])
            removed(alone)
        else:
            ground.is_after(place / "lake")
        removed(place)
        return number

    return go


def _different(number: int, is_one_cluster: bool) -> Trial:
    def go(ground: Ground) -> int:
        place = ground.place()
        if is_one_cluster:
            other = place / "3000"
            shutil.copytree(ground.capture / "controllers" / "3000", other / "controllers" / "3000")
        else:
            other = capture(OTHER_CLUSTER)
        captures = [ground.capture, other]
        expected = []
        for order in (captures, captures[::-1]):
            alone = ground.place()
            _one_after_the_other(alone, order)
            expected.append(digests(Lake(alone / "lake")))
            removed(alone)
        _together(place, captures * (number // 2))
        _same_rows(place / "lake", expected)
        removed(place)
        return number

    return go


def _words(place: Path, path: Path) -> list[str]:
    return ["run", str(path), "--lake", str(place / "lake")]


def _one_after_the_other(place: Path, captures: Sequence[Path]) -> None:
    for each in captures:
        done = started(place, _words(place, each)).ended()
        if done.code:
            raise LostError(f"a run left alone ended with {done.code}: {done.said[-600:]}")


def _together(place: Path, captures: Sequence[Path]) -> None:
    """Each has to end well: 4 means that an expectation was not met."""
    running = [started(place, _words(place, each)) for each in captures]
    for each in running:
        ends_clearly(each.ended(), (0, 4))


def _same_rows(lake: Path, expected: Sequence[Digests]) -> None:
    for name, found in digests(Lake(lake)).items():
        if name != _EITHER and found not in [each[name] for each in expected]:
            raise LostError(f"{name}: other rows than after one run after the other")
