"""An object store with a lake, or with a capture, that answers wrongly, too late or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from tests.faults.ground import Ground, LostError, Trial, ends_clearly, on_a_copy, removed
from tests.faults.program import Ended, started
from tests.faults.proxy import Failing, failing
from tests.support import s3

_BUCKET = "faults"
_EVERY = 9  # a request of so many fails
_MIDDLE = 400  # from this request on all fail; a run makes some hundred


@contextmanager
def store(folder: Path) -> Iterator[s3.Store]:
    """moto's server, with a bucket."""
    folder.mkdir(parents=True)
    with s3.moto(folder / "log") as running:
        running.bucket(_BUCKET, {})
        yield running


def trials(running: s3.Store, home: Path) -> Iterator[tuple[str, str, Trial]]:
    """(fault, where, trial). home: a folder without credentials."""
    for how, fault in (
        ("500", "object store: 500"),
        ("503", "object store: 503"),
        ("no answer", "object store: no answer"),
        ("cut", "object store: half of a body"),
        ("stale", "object store: stale listings"),
    ):
        yield fault, f"a lake: one request of {_EVERY}", _of_lake(running, home, how, 1, _EVERY)
        yield fault, f"a lake: all from request {_MIDDLE} on", _of_lake(running, home, how, _MIDDLE, 1)
        if how != "stale":
            yield fault, f"a capture: one request of {_EVERY}", _of_capture(running, home, how, 1, _EVERY)


def _of_lake(running: s3.Store, home: Path, how: str, first: int, every: int) -> Trial:
    def go(ground: Ground) -> int:
        name, place = uuid4().hex[:8], ground.folder / uuid4().hex[:8]
        running.upload(ground.before, _BUCKET, name)
        words = ["run", str(ground.capture), "--lake", f"s3://{_BUCKET}/{name}"]
        fault = Failing(how, first, every)
        with failing(running.endpoint, fault) as endpoint:
            done = ends_clearly(_started(place, words, endpoint, home))
        if not fault.failed:
            raise LostError("no request failed")
        lake = _downloaded(running, name, place / "lake")
        ground.is_before_or_after(lake)
        again = _started(place, words, running.endpoint, home)
        if again.code:
            raise LostError(f"after {done.code}, the run again ended with {again.code}: {again.said[-600:]}")
        ground.is_after(_downloaded(running, name, place / "again"))
        removed(place)
        return fault.failed

    return go


def _of_capture(running: s3.Store, home: Path, how: str, first: int, every: int) -> Trial:
    def act(ground: Ground, place: Path) -> int:
        key, fault = f"{uuid4().hex[:8]}/{ground.capture.name}", Failing(how, first, every)
        running.upload(ground.capture, _BUCKET, key)
        words = ["run", f"s3://{_BUCKET}/{key}", "--lake", str(place / "lake")]
        with failing(running.endpoint, fault) as endpoint:
            ends_clearly(_started(place, words, endpoint, home))
        if not fault.failed:
            raise LostError("no request failed")
        return fault.failed

    return on_a_copy(act)


def _started(place: Path, words: list[str], endpoint: str, home: Path) -> Ended:
    return started(place, words, settings=s3.credentials(endpoint, home)).ended()


def _downloaded(running: s3.Store, name: str, folder: Path) -> Path:
    """The lake as a local folder."""
    for page in running.client.get_paginator("list_objects_v2").paginate(Bucket=_BUCKET, Prefix=f"{name}/"):
        for entry in page.get("Contents", ()):
            target = folder / entry["Key"].removeprefix(f"{name}/")
            if not entry["Key"].endswith("/"):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(running.client.get_object(Bucket=_BUCKET, Key=entry["Key"])["Body"].read())
    return folder
