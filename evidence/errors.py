"""The error tree. Each message names the file, the byte position and the offset, and what to do next."""

from dataclasses import dataclass


class KraftForensicsError(Exception):
    """An error for the user: the CLI prints it without a traceback and exits with `exit_code`."""

    exit_code = 1


class UsageError(KraftForensicsError):
    """An option, an argument or a setting has a value that it can never have."""

    exit_code = 2


def spelled_out(name: str) -> str:
    """A file name as text that can be stored and printed: bytes that are not UTF-8 become \\udc<hex>."""
    return name.encode("utf-8", "backslashreplace").decode()


class CaptureError(KraftForensicsError):
    """A capture cannot be opened or must not be used as a whole."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A range of bytes that cannot be used.

    position, length_bytes: the range in the file. offset: the metadata offset there; None if unknown. reason: a short
    code, listed in docs/evidence.md. message: one sentence for the user.
    """

    position: int
    length_bytes: int
    offset: int | None
    reason: str
    message: str

    def describe(self, path: str) -> str:
        """The message after its place: 'path: byte 12 (offset 3): what is wrong'."""
        where = f"byte {self.position}" + ("" if self.offset is None else f" (offset {self.offset})")
        return f"{path}: {where}: {self.message}"


class DecodeError(KraftForensicsError):
    """The bytes do not have the expected format. `position` counts from the start of the decoded buffer."""

    def __init__(self, reason: str, message: str, position: int) -> None:
        super().__init__(message)
        self.reason = reason
        self.position = position
