"""Look up known vulnerabilities of every locked package (`make audit`), and say how many packages were looked up.

pip-audit asks the package index's own service, or another with `--vulnerability-service`. It ends with 0 also where
nothing answered; this program does not.

Exit codes: 0 all packages were looked up and none has a known vulnerability, 1 some have, 2 some were not looked up.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
SECONDS = 900
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
        lines, code = lines_of(lock.name, audit(lock, sys.argv[1:]))
        print("\n".join(lines), flush=True)
        codes.append(code)
    if UNKNOWN in codes:
        print(
            "The index that pip uses here does not answer for every package. This audit says nothing about packages "
            "that are NOT KNOWN: repeat it where the index's JSON API or another service can be reached "
            "(make audit AUDIT='--vulnerability-service osv')."
        )
    return VULNERABLE if VULNERABLE in codes else max(codes)


if __name__ == "__main__":
    sys.exit(main())
