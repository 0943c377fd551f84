"""The clock of the day jumps, before or during a run."""

from collections.abc import Iterator

from tests.faults.ground import Ground, Trial, ends_clearly, removed
from tests.faults.injector import ALL, Injection, Mode

_DAY_S = 86_400


def trials() -> Iterator[tuple[str, str, Trial]]:
    """(fault, where, trial)."""
    for days in (-3650, 3650):
        yield "clock jump", f"{days:+} days during a whole run (injector)", _jumping(days, 0.0, 1.0)
    for days in (-1, 1):
        yield "clock jump", f"{days:+} day in the middle of a run (injector)", _jumping(days, 0.5, 1.0)
    yield "clock jump", "+1 day, and back again (injector)", _jumping(1, 0.3, 0.6)


def _jumping(days: int, begin: float, end: float) -> Trial:
    """begin, end: shares of the calls of a run."""

    def go(ground: Ground) -> int:
        place = ground.place()
        first, last = int(begin * ground.writes), int(end * ground.writes) if end < 1 else ALL
        injection = Injection(place / "lake", Mode.CLOCK, first, last, shift_s=days * _DAY_S)
        ends_clearly(ground.run(place, injection=injection).ended(), (0,))
        # Results of quality are those of the newest run by the clock, which an earlier one may be now.
        ground.is_after(place / "lake", without="quality_results")
        ends_clearly(ground.run(place).ended(), (0,))
        ground.is_after(place / "lake", without="quality_results")
        removed(place)
        return 1

    return go
