"""Where the test data lies. Nothing outside the repository is read."""

import tarfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
CAPTURES = ROOT / "tests" / "captures"
ORACLE = ROOT / "tests" / "oracle"


def capture(name: str) -> Path:
    """The archive of a real capture, by name."""
    bundled = EXAMPLES / f"{name}.tar.xz"
    return bundled if bundled.is_file() else CAPTURES / f"{name}.tar.xz"


@cache
def captured_files(name: str) -> dict[str, bytes]:
    """The files of a real capture, by their path in it."""
    with tarfile.open(capture(name)) as tar:
        files = ((member.name, tar.extractfile(member)) for member in tar if member.isreg())
        return {path.removeprefix(f"{name}/"): stream.read() for path, stream in files if stream}


def captured_file(name: str, path: str) -> bytes:
    """One file of a real capture."""
    return captured_files(name)[path]


def unpacked(name: str, folder: Path) -> Path:
    """A real capture, unpacked below `folder`."""
    with tarfile.open(capture(name)) as tar:
        tar.extractall(folder, filter="data")
    return folder / name


def controllers(name: str, folder: Path) -> Path:
    """Of a real capture the controllers' folders alone, unpacked below `folder`: all that its history follows from."""
    with tarfile.open(capture(name)) as tar:
        members = [m for m in tar if m.name.startswith(f"{name}/controllers/") and m.isreg()]
        tar.extractall(folder, members=members, filter="data")
    return folder / name
