"""The manifest of the captures in a lake, and what of a signed one the lake still has.

A manifest, verdict.json and the JSON report name the digest of each ingested capture and the newest commit of each
table. A lake whose chain of digests was made anew does not have these any more, however good the new chain is.

Signatures are made by ssh-keygen (`-Y`, namespace NAMESPACE, in FILE.sig).
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path

import pyarrow.compute as pc

from evidence.errors import KraftForensicsError
from jobs.custody.tables import Difference
from jobs.lake.integrity import made_from, receipts
from jobs.lake.lake import Lake, Row
from jobs.lake.tables import CLUSTER_ID, TABLES
from replay.arrow.runs import groups

_FILE = ("path", "sha256", "size_bytes", "kind", "node_id")


def manifest(lake: Lake, cluster: str, capture: str | None = None) -> Row:
    """Every ingested capture with its files, who ingested it, with which version and when. capture: only this one.
    Errors: KraftForensicsError if there is no such capture."""
    names = [name for name in lake.captures(cluster) if capture in (None, name)]
    if not names:
        raise KraftForensicsError(f"{lake.root}: no capture {capture}; `kraft-forensics manifest` lists all of them")
    done = groups(receipts(lake, cluster), itemgetter("capture"))
    captures = []
    for name in names:
        rows = lake.rows("evidence_files", cluster, _FILE, pc.field("capture") == name)
        ingests = [{k: v for k, v in receipt.items() if k != "capture"} for receipt in done.get(name, ())]
        files = sorted(rows, key=itemgetter("path", "sha256"))
        captures.append({"capture": name, "ingests": ingests, "files": files})
    return {"cluster_id": cluster, "captures": captures, "tables": made_from(lake, cluster)["tables"]}


def signed_document(file: Path) -> Row | None:
    """The content of a signed file if it says what a lake had; None for any other file."""
    try:
        document = json.loads(file.read_bytes())
    except ValueError:
        return None
    match document.get("made_from", document) if isinstance(document, dict) else None:
        case {"captures": _, "tables": dict()} if CLUSTER_ID in document:
            return document
    return None


def check_signed(lake: Lake, cluster: str, document: Row) -> Iterator[Difference]:
    """What a signed document names and the lake does not have. What was added since is no difference."""
    made_from: Row = document.get("made_from", document)
    has = {(receipt["capture"], receipt["digest"]) for receipt in receipts(lake, cluster)}
    for capture, digest in _captures(made_from):
        if (capture, digest) not in has:
            text = f"{capture}: signed with digest {digest[:16]} of its files, which no ingest of this lake has"
            yield Difference("evidence_files", "not_as_signed", text)
    for name, head in made_from["tables"].items():
        links = {made.get("link") for made in lake.marks(name, cluster)} if name in TABLES else ()
        if head["digest"] not in links:
            text = f"signed at version {head['version']}, digest {head['digest'][:16]}; the table has no such commit"
            yield Difference(name, "not_as_signed", text)


def _captures(made_from: Row) -> list[tuple[str, str]]:
    """(capture, digest of its files): of a manifest one for each ingest."""
    captures = made_from["captures"]
    if isinstance(captures, dict):
        return list(captures.items())
    return [(capture["capture"], ingest["digest"]) for capture in captures for ingest in capture["ingests"]]


NAMESPACE = "kraft-forensics"
_Done = subprocess.CompletedProcess[bytes]


class SignatureError(KraftForensicsError):
    """A file cannot be signed, or its signature is not good."""


def sign(file: Path, key: Path) -> Path:
    """Sign a file with an ssh key; returns the signature's file. Errors: SignatureError."""
    signature = file.with_name(f"{file.name}.sig")
    signature.unlink(missing_ok=True)  # ssh-keygen would ask
    done = _ssh_keygen("sign", "-n", NAMESPACE, "-f", str(key), str(file))
    if done.returncode:
        raise SignatureError(f"{file}: cannot be signed with {key}{_reason(done)}")
    return signature


def check_signature(file: Path, signers: Path) -> str:
    """Check the signature beside a file; returns who signed it. signers: an allowed_signers file of ssh. Errors:
    SignatureError."""
    signature = file.with_name(f"{file.name}.sig")
    for needed, what in ((file, "the signed file"), (signature, "the signature"), (signers, "the list of signers")):
        if not needed.is_file():
            raise SignatureError(f"{needed}: {what} is missing")
    found = _ssh_keygen("find-principals", "-s", str(signature), "-f", str(signers))
    signer = found.stdout.decode(errors="replace").split("\n")[0].strip()
    if (found.returncode or not signer) and _lines(found) in ([], ["No principal matched."]):
        raise SignatureError(f"{file}: signed with another key than {signers} has")
    if found.returncode == 0 and signer:
        of_signer = ("-n", NAMESPACE, "-f", str(signers), "-I", signer, "-s", str(signature))
        found = _ssh_keygen("verify", *of_signer, data=file.read_bytes())
        if any("incorrect signature" in line for line in _lines(found)):
            raise SignatureError(f"{file}: not what was signed: the file or its signature was changed")
    if found.returncode:
        raise SignatureError(f"{signature}: the signature cannot be checked{_reason(found)}")
    return signer


def _ssh_keygen(action: str, *arguments: str, data: bytes | None = None) -> _Done:
    if (program := shutil.which("ssh-keygen")) is None:
        raise SignatureError("ssh-keygen is missing: install it (Debian: apt-get install openssh-client)")
    return subprocess.run([program, "-Y", action, *arguments], input=data, capture_output=True)


def _lines(done: _Done) -> list[str]:
    return [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]


def _reason(done: _Done) -> str:
    """The first line of what the tool wrote, if it wrote any."""
    return f": ssh-keygen: {lines[0]}" if (lines := _lines(done)) else ""
