"""The manifest of the captures in a lake, and signatures by ssh-keygen."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from evidence.errors import KraftForensicsError
from jobs.lake.lake import Lake
from jobs.lake.made_from import made_from, receipts

NAMESPACE = "kraft-forensics"
_FILE = ("path", "sha256", "size_bytes", "kind", "node_id")


class SignatureError(KraftForensicsError):
    """A file cannot be signed, or its signature is not good."""


def manifest(lake: Lake, cluster: str, capture: str | None = None) -> dict[str, Any]:
    """Every ingested capture with its files, who ingested it, with which version and when. capture: only this one.
    Errors: KraftForensicsError if there is no such capture."""
    names = [name for name in lake.captures(cluster) if capture in (None, name)]
    if not names:
        raise KraftForensicsError(f"{lake.root}: no capture {capture}; `kraft-forensics manifest` lists all of them")
    done = receipts(lake, cluster)
    captures = []
    for name in names:
        rows = lake.rows("evidence_files", cluster, _FILE, pc.field("capture") == name)
        ingests = [
            {k: v for k, v in receipt.items() if k != "capture"} for receipt in done if receipt["capture"] == name
        ]
        files = sorted(rows, key=lambda row: (row["path"], row["sha256"]))
        captures.append({"capture": name, "ingests": ingests, "files": files})
    return {"cluster_id": cluster, "captures": captures, "tables": made_from(lake, cluster)["tables"]}


def sign(file: Path, key: Path) -> Path:
    """Sign a file with an ssh key; returns the signature's file. Errors: SignatureError."""
    signature = file.with_name(f"{file.name}.sig")
    signature.unlink(missing_ok=True)  # ssh-keygen would ask
    _ssh_keygen(["-Y", "sign", "-n", NAMESPACE, "-f", str(key), str(file)], b"")
    return signature


def check_signature(file: Path, allowed_signers: Path) -> str:
    """Check the signature of a file, which lies beside it; returns who signed it. Errors: SignatureError."""
    signature, data = str(file.with_name(f"{file.name}.sig")), file.read_bytes()
    found = _ssh_keygen(["-Y", "find-principals", "-s", signature, "-f", str(allowed_signers)], b"")
    signer = found.splitlines()[0].strip() if found.strip() else ""
    arguments = ["-Y", "verify", "-n", NAMESPACE, "-f", str(allowed_signers), "-I", signer, "-s", signature]
    _ssh_keygen(arguments, data)
    return signer


def _ssh_keygen(arguments: list[str], data: bytes) -> str:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise SignatureError("ssh-keygen is missing: install OpenSSH to sign files and check signatures")
    done = subprocess.run([program, *arguments], input=data, capture_output=True)
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise SignatureError(f"ssh-keygen: {lines[-1]}")
    return done.stdout.decode(errors="replace")
