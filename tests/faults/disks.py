"""Full, read-only, broken and slow disks below the lake; a capture that cannot be read."""

import errno
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.faults.ground import Ground, LostError, NotHereError, Trial, ends_clearly, on_a_copy, removed
from tests.faults.injector import ALL, Injection, Mode

_FREE_KB = (40, 400)
_QUOTA_BYTES = (2_000, 20_000)
_SLOW_MS = 50


def trials(seed: int, moments: int) -> Iterator[tuple[str, str, Trial]]:
    """(fault, where, trial). moments: number of random calls for each kind of error."""
    for free in _FREE_KB:
        yield "disk full", "tmpfs", _full(free)
    yield "read-only lake", "bind mount", on_a_copy(_read_only)
    yield "read-only lake", "EROFS of each write (injector)", error(errno.EROFS, 0.0)
    for size in _QUOTA_BYTES:
        yield "quota", "EFBIG (RLIMIT_FSIZE)", quota(size)
    source = random.Random(seed)
    for _ in range(moments):
        share = source.random()
        yield "disk full", "ENOSPC from a random write on (injector)", error(errno.ENOSPC, share)
        yield "quota", "EDQUOT from a random write on (injector)", error(errno.EDQUOT, share)
        yield "EIO", "from a random write on (injector)", error(errno.EIO, share)
        yield "EIO", "at one random write (injector)", error(errno.EIO, share, once=True)
        yield "EIO", "from a random read of the lake on (injector)", error(errno.EIO, share, on_reads=True)
        yield "EIO", "at one random read of the lake (injector)", error(errno.EIO, share, once=True, on_reads=True)
        yield "EIO", "at a random read of the capture (injector)", _of_capture(share)
    yield "slow disk", f"{_SLOW_MS} ms for each of 200 writes (injector)", _slow


def _check_mounts() -> None:
    done = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, text=True)
    if os.geteuid() or done.returncode:
        raise NotHereError("this machine or user may not mount")


def _mount(*words: str | Path) -> None:
    subprocess.run(["mount", *words], check=True)


def _used_kb(folder: Path) -> int:
    return sum(-(-file.stat().st_size // 4096) * 4 + 4 for file in folder.rglob("*"))


def _full(free_kb: int) -> Trial:
    """free_kb: what a small disk has left beside the lake."""

    def go(ground: Ground) -> int:
        _check_mounts()
        place = ground.place()
        disk = place / "disk"
        disk.mkdir()
        _mount("-t", "tmpfs", "-o", f"size={_used_kb(place / 'lake') + free_kb}k", "tmpfs", disk)
        try:
            subprocess.run(["cp", "-a", place / "lake", disk / "lake"], check=True)
            ends_clearly(ground.run(disk).ended(), (1,))
            ground.is_before_or_after(disk / "lake")
            _mount("-o", "remount,size=1g", disk)
            ground.converges(disk)
        finally:
            subprocess.run(["umount", "-l", disk], check=True)
        removed(place)
        return 1

    return go


def _read_only(ground: Ground, place: Path) -> None:
    _check_mounts()
    lake = place / "lake"
    _mount("--bind", lake, lake)
    try:
        _mount("-o", "remount,bind,ro", lake)
        ends_clearly(ground.run(place).ended(), (1,))
    finally:
        subprocess.run(["umount", "-l", lake], check=True)


def quota(size: int) -> Trial:
    return on_a_copy(lambda ground, place: ends_clearly(ground.run(place, file_bytes=size).ended(), (1,)))


def error(number: int, share: float, once: bool = False, on_reads: bool = False) -> Trial:
    """share: of the calls of a run. number: an errno."""

    def act(ground: Ground, place: Path) -> None:
        first = 1 + int(share * (ground.reads if on_reads else ground.writes))
        last = first if once else ALL
        _survives(ground, place, Injection(place / "lake", Mode.FAIL, first, last, number, on_reads), once)

    return on_a_copy(act)


def _of_capture(share: float) -> Trial:
    first = 1 + int(share * 1000)

    def act(ground: Ground, place: Path) -> None:
        _survives(ground, place, Injection(ground.capture, Mode.FAIL, first, first, errno.EIO, on_reads=True), True)

    return on_a_copy(act)


def _survives(ground: Ground, place: Path, injection: Injection, may_succeed: bool) -> None:
    done = ends_clearly(ground.run(place, injection=injection).ended())
    if done.code == 0 and not may_succeed and done.calls >= injection.first:
        raise LostError(f"exit code 0, although writes failed: {done.said[-600:]}")


def _slow(ground: Ground) -> int:
    place = ground.place()
    injection = Injection(place / "lake", Mode.SLOW, 1, 200, _SLOW_MS)
    ground.goes_well(place, injection=injection)
    return 1
