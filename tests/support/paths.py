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


def text_with_table(module: Path) -> str:
    """A test module and the table beside it (tests/support/window_table.py)."""
    return "".join(p.read_text(encoding="utf-8") for p in {module, module.with_suffix(".txt")} if p.exists())


@cache
def captured_files(name: str) -> dict[str, bytes]:
    """The files of a real capture, by their path in it."""
    with tarfile.open(capture(name)) as tar:
        files = ((member.name, tar.extractfile(member)) for member in tar if member.isreg())
        return {path.removeprefix(f"{name}/"): stream.read() for path, stream in files if stream}


def captured_file(name: str, path: str) -> bytes:
    """One file of a real capture."""
    return captured_files(name)[path]


def unpacked(name: str, folder: Path, *places: str) -> Path:
    """A real capture, or these folders of it alone, unpacked below `folder`: thousands of files take seconds."""
    wanted = tuple(f"{name}/{place}/" for place in places) or f"{name}/"
    with tarfile.open(capture(name)) as tar:
        members = [member for member in tar if member.isreg() and member.name.startswith(wanted)]
        tar.extractall(folder, members=members, filter="data")
    return folder / name


def controllers(name: str, folder: Path) -> Path:
    """Of a real capture the controllers' folders alone: all that its history follows from."""
    return unpacked(name, folder, "controllers")


@cache
def rounds(name: str) -> list[str]:
    """The folders of a real capture's rounds of copying, in order."""
    with tarfile.open(capture(name)) as tar:
        paths = [member.name.split("/") for member in tar]
    return sorted({"/".join(path[1:3]) for path in paths if path[1:2] == ["snapshots"] and len(path) > 2})
