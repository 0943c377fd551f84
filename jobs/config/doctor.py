"""`doctor`: check that this machine has what the job needs, without starting Spark."""

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from evidence.capture.remote import Location, Remote
from jobs.config.jars import delta_jars
from jobs.config.settings import Settings

_PACKAGES = ("pyspark", "delta-spark", "pyarrow", "pandas", "numpy", "great_expectations")
_MIN_FREE_BYTES = 1 << 30
FAILED = "FAILED"
Row = dict[str, str]


def run_checks(settings: Settings, lake: Location) -> list[Row]:
    """Run every check; the most important ones come first. Rows {check, ok, found, what to do}, for people."""
    place = [_store(lake)] if isinstance(lake, Remote) else _folder(lake)
    found = ".".join(map(str, sys.version_info[:3]))
    python = _row("Python", sys.version_info >= (3, 11), found, "install Python 3.11 or newer")
    return [python, _java(settings), *map(_package, _PACKAGES), _jars(settings), *place]


def _row(what: str, ok: bool, found: str, advice: str = "") -> Row:
    return {"check": what, "ok": "ok" if ok else FAILED, "found": found, "what to do": "" if ok else advice}


def _store(lake: Remote) -> Row:
    """Whether a file can be written to the object store and deleted again."""
    from pyarrow.fs import FileSystem  # slow to import

    advice = "set the store's credentials, endpoint and region in the environment; the bucket must exist"
    try:
        system, path = FileSystem.from_uri(lake.url)
        with system.open_output_stream(f"{path}/.doctor") as file:
            file.write(b"kraft-forensics doctor")
        system.delete_file(f"{path}/.doctor")
    except OSError as error:
        return _row("store", False, f"{lake}: {type(error).__name__}", advice)
    return _row("store", True, f"{lake}: can be written")


def java() -> str | None:
    """The program that starts Java; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(str(Path(home) / "bin" / "java") if home else "java")


def _java(settings: Settings) -> Row:
    if settings.engine == "local":
        return _row("Java", True, "not needed: engine = local")
    binary = java()
    advice = "install Java 17 (Spark 4 needs 17 or newer) and set JAVA_HOME or PATH"
    if not binary:
        return _row("Java", False, "not found", advice)
    try:
        out = subprocess.run([binary, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError) as error:
        return _row("Java", False, f"{binary}: {error}", advice)
    match = re.search(r'version "(\d+)', out)
    is_new = match is not None and int(match[1]) >= 17
    return _row("Java", is_new, out.splitlines()[0] if out else "?", advice)


def _package(name: str) -> Row:
    try:
        return _row(name, True, version(name))
    except PackageNotFoundError:
        return _row(name, False, "not installed", "install the wheel again, or run `make setup` in a checkout")


def _jars(settings: Settings) -> Row:
    if settings.spark.jars_mode != "jars":
        return _row("Delta's jars", True, f"jars_mode = {settings.spark.jars_mode}")
    folder, listed = settings.spark.jars_path(), delta_jars()
    wrong = listed.differences(folder)
    found = f"{folder}: {wrong[0]}" if wrong else f"{len(listed.sha256)} in {folder}, SHA-256 as listed"
    return _row("Delta's jars", not wrong, found, "run `kraft-forensics setup`, or set spark.jars_dir")


def _folder(lake: Path) -> list[Row]:
    """Whether the folder, or the nearest one above it that exists, has room and can be written to."""
    folder = next(each for each in (lake.resolve(), *lake.resolve().parents) if each.exists())
    free = shutil.disk_usage(folder).free
    room, advice = f"{free / 2**30:.1f} GiB free for {lake}", "free at least 1 GiB, or choose another --lake"
    return [
        _row("disk", free > _MIN_FREE_BYTES, room, advice),
        _row("permissions", os.access(folder, os.W_OK), f"{folder}", "choose a --lake that you can write to"),
    ]
