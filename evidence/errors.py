"""The error tree. Every message names the file, the byte position and the offset, and says what to do next."""

from __future__ import annotations

from dataclasses import dataclass


class KraftForensicsError(Exception):
    """Something the user has to know; the CLI prints it without a traceback and exits with `exit_code`."""

    exit_code = 1


def spelled_out(name: str) -> str:
    """A file name as text that can be stored and printed: bytes that are not UTF-8 are spelled out as \\udc<hex>."""
    return name.encode("utf-8", "backslashreplace").decode()


class CaptureError(KraftForensicsError):
    """A capture cannot be opened or must not be used as a whole."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A stretch of bytes that could not be used.

    position, length_bytes: where, in the file. offset: the metadata offset there, None if it cannot be told.
    reason: a short code (docs/evidence.md explains them). message: one sentence for a person.
    """

    position: int
    length_bytes: int
    offset: int | None
    reason: str
    message: str

    def describe(self, path: str) -> str:
        """The message with the place in front: 'path: byte 12 (offset 3): what is wrong'."""
        where = f"byte {self.position}" + ("" if self.offset is None else f" (offset {self.offset})")
        return f"{path}: {where}: {self.message}"


class DecodeError(KraftForensicsError):
    """Bytes that are not what they claim to be. `position` counts from the start of the buffer being decoded."""

    def __init__(self, reason: str, message: str, position: int) -> None:
        super().__init__(message)
        self.reason = reason
        self.position = position
