"""`conformance`: compare the rules with the output of Kafka's own classes, case by case. Starts no JVM."""

import gzip
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from evidence.errors import KraftForensicsError, UsageError
from jobs.console.output import Row
from replay.controller.conformance import CaseError, differences
from replay.controller.profiles import PROFILES, Profile

_CHUNK_CASES = 5_000
_GZIP = b"\x1f\x8b"

Case = tuple[str, int, Row]  # its place in the file as text, the number of its line, and the case


def named_profile(name: str | None) -> Profile | None:
    """The profile with that name; None for None. Errors: UsageError if there is none."""
    if name is not None and name not in PROFILES:
        raise UsageError(f"no profile {name!r}; choose one of {', '.join(PROFILES)}")
    return PROFILES[name] if name else None


def check_cases(file: Path, profile: Profile | None) -> list[tuple[int, Row | None]]:
    """Predict each case and compare: (number of its line, None or the expected and the predicted output). file: one
    JSON object per line, gzipped or not; profile: for all cases; None: the profile of each case's release.

    Errors: KraftForensicsError with the file, line and byte position of an invalid case.
    """
    result: list[tuple[int, Row | None]] = []
    cases = _cases(file)
    while chunk := list(islice(cases, _CHUNK_CASES)):
        try:
            found = differences([case for _, _, case in chunk], profile)
        except CaseError:  # one by one, so that the error names the case
            found = []
            for place, _, case in chunk:
                try:
                    found += differences([case], profile)
                except CaseError as error:
                    raise KraftForensicsError(f"{place}: {error}") from error
        result += zip((line for _, line, _ in chunk), found, strict=True)
    return result


def _cases(file: Path) -> Iterator[Case]:
    position = 0
    try:
        with file.open("rb") as raw:
            is_gzip = raw.read(2) == _GZIP
        with gzip.open(file) if is_gzip else file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    place = f"{file}: line {number}, byte {position}"
                    yield place, number, _parsed(place, line)
                position += len(line)
    except (OSError, EOFError) as error:
        raise KraftForensicsError(f"{file}: cannot be read: {error}") from error


def _parsed(place: str, line: bytes) -> Row:
    try:
        case = json.loads(line)
    except ValueError as error:
        raise KraftForensicsError(f"{place}: not JSON: {error}") from error
    if not isinstance(case, dict):
        raise KraftForensicsError(f"{place}: expected a JSON object, not {type(case).__name__}")
    return case
