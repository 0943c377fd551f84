"""Look up known vulnerabilities of every locked package (`make audit`), and say how many packages were looked up.

pip-audit asks the package index's own service, or another with `--vulnerability-service`. It ends with 0 also where
nothing answered; this program does not. For what pip-audit could not look up, the index that pip uses is asked once
more: some mirrors answer for the newest version of a package alone, which pip-audit does not ask for.

Exit codes: 0 all packages were looked up and none has a known vulnerability, 1 some have, 2 some were not looked up.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import urlopen

FOLDER = Path(__file__).resolve().parent
SECONDS, SECONDS_A_PACKAGE = 900, 30
# A package whose newest version has known vulnerabilities: an index that does not say so knows nothing of the others.
CONTROL = "pycrypto"
VULNERABLE, UNKNOWN = 1, 2


def audit(lock: Path, options: list[str]) -> list[dict[str, Any]]:
    """pip-audit's answer for each package of a lock file. Errors: RuntimeError if it gave none."""
    words = ["--require-hashes", "--disable-pip", "--progress-spinner", "off", "--format", "json", *options]
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(lock), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    try:
        return list(json.loads(done.stdout)["dependencies"])
    except (ValueError, KeyError) as error:
        raise RuntimeError(f"pip-audit gave no answer for {lock.name}:\n{done.stderr.strip()[-2000:]}") from error


def newest(packages: list[dict[str, Any]], versions: dict[str, str], ask: Callable[[str], Any]) -> list[dict[str, Any]]:
    """The same packages, with an answer for each skipped one whose locked version is the newest that the index has.
    ask: the index's answer about a package, as of JSON; None if there is none."""
    skipped = [p["name"] for p in packages if "skip_reason" in p]
    if not skipped or not (ask(CONTROL) or {}).get("vulnerabilities"):
        return packages
    answers = {name: answer for name in skipped if (answer := ask(name)) and "vulnerabilities" in answer}
    return [_answered(p, versions.get(p["name"]), answers.get(p["name"])) for p in packages]


def _answered(package: dict[str, Any], version: str | None, answer: Any) -> dict[str, Any]:
    if answer is None or version is None or answer["info"]["version"] != version:
        return package
    found = [v for v in answer["vulnerabilities"] if not v.get("withdrawn")]
    vulns = [{"id": v["id"], "fix_versions": v.get("fixed_in") or []} for v in found]
    return {"name": package["name"], "version": version, "vulns": vulns}


def versions_of(lock: Path) -> dict[str, str]:
    """The version of each package in a lock file; those that have several, for several platforms, are left out."""
    pins = re.findall(r"^([\w.-]+)==([^\s;]+)", lock.read_text(encoding="utf-8"), re.M)
    count = Counter(name for name, _ in pins)
    return {name: version for name, version in pins if count[name] == 1}


@cache
def of_index(name: str) -> Any:
    """What the index that pip uses says of a package's newest version, if it has the JSON API; None if not."""
    try:
        with urlopen(f"{_index()}/pypi/{name}/json", timeout=SECONDS_A_PACKAGE) as response:
            return json.load(response)
    except (OSError, HTTPException, ValueError):
        return None


@cache
def _index() -> str:
    """The index's URL without `/simple`, from pip's settings, else pip's own."""
    from pip._internal.models.index import PyPI  # pip has no public name for it

    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    found = os.environ.get("PIP_INDEX_URL") or done.stdout.strip() or PyPI.simple_url
    return found.rstrip("/").removesuffix("/simple")


def lines_of(name: str, packages: list[dict[str, Any]]) -> tuple[list[str], int]:
    """What to print of one lock file, and the exit code that follows from it."""
    unknown = [p for p in packages if "skip_reason" in p]
    found = [(p, v) for p in packages for v in p.get("vulns", ())]
    lines = [
        f"{name}: {p['name']} {p['version']} has {v['id']}; fixed in {', '.join(v['fix_versions']) or 'no release'}"
        for p, v in found
    ]
    known = len(packages) - len(unknown)
    lines.append(f"{name}: {known} of {len(packages)} packages looked up, {len(found)} known vulnerabilities")
    if unknown:
        lines.append(f"{name}: NOT KNOWN for {len(unknown)} packages: {unknown[0]['skip_reason']}")
    return lines, VULNERABLE if found else UNKNOWN if unknown else 0


def main() -> int:
    codes = []
    for lock in sorted(FOLDER.glob("*.txt")):
        lines, code = lines_of(lock.name, newest(audit(lock, sys.argv[1:]), versions_of(lock), of_index))
        print("\n".join(lines), flush=True)
        codes.append(code)
    if UNKNOWN in codes:
        print(
            "The index that pip uses here does not answer for every package and version. This audit says nothing about "
            "packages that are NOT KNOWN: repeat it where the index's JSON API or another service can be reached "
            "(make audit AUDIT='--vulnerability-service osv')."
        )
    return VULNERABLE if VULNERABLE in codes else max(codes)


if __name__ == "__main__":
    sys.exit(main())
