"""`conformance`: compare the rules with the output of Kafka's own classes, case by case. Starts no JVM."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from evidence.errors import KraftForensicsError
from replay.controller.conformance import CaseError, differences
from replay.controller.profiles import PROFILES, Profile

_CHUNK_CASES = 5_000
_GZIP = b"\x1f\x8b"

Row = dict[str, Any]


@dataclass(slots=True)
class Conformance:
    """The result for a file of cases. differing: line number, with the expected and the predicted output."""

    matched: int = 0
    differing: list[tuple[int, Row]] = field(default_factory=list)


def named_profile(name: str | None) -> Profile | None:
    """The profile with that name; None for None. Errors: KraftForensicsError if there is none."""
    if name is not None and name not in PROFILES:
        raise KraftForensicsError(f"no profile {name!r}; choose one of {', '.join(PROFILES)}")
    return PROFILES[name] if name else None


def check_cases(file: Path, profile: Profile | None) -> Conformance:
    """Predict each case and compare. file: one JSON object per line, gzipped or not; profile: for all cases; None: the
    profile of each case's release.

    Errors: KraftForensicsError with the file, line and byte position of an invalid case.
    """
    result = Conformance()
    cases = _cases(file)
    for chunk in iter(lambda: list(islice(cases, _CHUNK_CASES)), []):
        try:
            found = differences([case for _, _, case in chunk], profile)
        except CaseError:
            found = [_difference(file, numbered, profile) for numbered in chunk]
        for (line, _, _), difference in zip(chunk, found, strict=True):
            if difference is None:
                result.matched += 1
            else:
                result.differing.append((line, difference))
    return result


def _difference(file: Path, numbered: tuple[int, int, Row], profile: Profile | None) -> Row | None:
    """Predict a single case, so that an error names the case that cannot be predicted."""
    line, position, case = numbered
    try:
        return differences([case], profile)[0]
    except CaseError as error:
        raise KraftForensicsError(f"{file}: line {line}, byte {position}: {error}") from error


def _cases(file: Path) -> Iterator[tuple[int, int, Row]]:
    """(line number, byte position, case) of each case."""
    position = 0
    try:
        with file.open("rb") as raw:
            is_gzip = raw.read(2) == _GZIP
        with gzip.open(file) if is_gzip else file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, position, _parsed(file, number, position, line)
                position += len(line)
    except (OSError, EOFError) as error:
        raise KraftForensicsError(f"{file}: cannot be read: {error}") from error


def _parsed(file: Path, number: int, position: int, line: bytes) -> Row:
    try:
        case = json.loads(line)
    except ValueError as error:
        raise KraftForensicsError(f"{file}: line {number}, byte {position}: not JSON: {error}") from error
    if not isinstance(case, dict):
        raise KraftForensicsError(
            f"{file}: line {number}, byte {position}: expected a JSON object, not {type(case).__name__}"
        )
    return case
