"""The manifest of the captures in a lake, and what of a signed one the lake still has.

A manifest, verdict.json and the JSON report name the digest of each ingested capture and the newest commit of each
table. A lake whose chain of digests was made anew does not have these any more, however good the new chain is.

Signatures are made by ssh-keygen (`-Y`, namespace NAMESPACE, in FILE.sig) or minisign (FILE.minisig): the kind of a key
follows from its file. Keys of age are refused: age only encrypts.
"""

import json
import shutil
import subprocess
from base64 import b64decode
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
_MINISIGN_FILE = b"untrusted comment:"  # how each file of minisign begins
_AGE_FILE = (b"AGE-SECRET-KEY-", b"age1", b"age-encryption.org/")
_Done = subprocess.CompletedProcess[bytes]
_PACKAGES = {"ssh-keygen": "openssh-client", "minisign": "minisign"}


class SignatureError(KraftForensicsError):
    """A file cannot be signed, or its signature is not good."""


def sign(file: Path, key: Path) -> Path:
    """Sign a file with an ssh key or a secret key of minisign; returns the signature's file. Errors: SignatureError."""
    if _is_minisign(key):
        signature = _beside(file, "minisig")
        # It asks for the key's password on stderr.
        done = _run("minisign", ["-S", "-s", str(key), "-m", str(file), "-x", str(signature)], stderr=None)
    else:
        signature = _beside(file, "sig")
        signature.unlink(missing_ok=True)  # ssh-keygen would ask
        done = _run("ssh-keygen", ["-Y", "sign", "-n", NAMESPACE, "-f", str(key), str(file)])
    if done.returncode:
        raise SignatureError(f"{file}: cannot be signed with {key}{_reason(done)}")
    return signature


def check_signature(file: Path, signers: Path) -> str:
    """Check the signature beside a file; returns who signed it. signers: an allowed_signers file of ssh, or a public
    key of minisign. Errors: SignatureError."""
    check, ending = (_check_minisign, "minisig") if _is_minisign(signers) else (_check_ssh, "sig")
    signature = _beside(file, ending)
    for needed, what in ((file, "the signed file"), (signature, "the signature")):
        if not needed.is_file():
            raise SignatureError(f"{needed}: {what} is missing")
    return check(file, signature, signers)


def _check_ssh(file: Path, signature: Path, signers: Path) -> str:
    found = _run("ssh-keygen", ["-Y", "find-principals", "-s", str(signature), "-f", str(signers)])
    signer = found.stdout.decode(errors="replace").split("\n")[0].strip()
    if found.returncode or not signer:
        is_other = _lines(found) in ([], ["No principal matched."])
        raise _not_good(file, signature, signers, found, is_other=is_other)
    arguments = ["-Y", "verify", "-n", NAMESPACE, "-f", str(signers), "-I", signer, "-s", str(signature)]
    done = _run("ssh-keygen", arguments, file.read_bytes())
    if done.returncode:
        is_changed = any("incorrect signature" in line for line in _lines(done))
        raise _not_good(file, signature, signers, done, is_changed=is_changed)
    return signer


def _check_minisign(file: Path, signature: Path, key: Path) -> str:
    done = _run("minisign", ["-V", "-Q", "-p", str(key), "-m", str(file), "-x", str(signature)])
    if done.returncode:
        lines = _lines(done)
        raise _not_good(file, signature, key, done, any("key id" in line for line in lines), not lines)
    comment = done.stdout.decode(errors="replace").strip().replace("\t", ", ")
    # After two letters for the algorithm the key's number in eight bytes; minisign prints it without leading zeros.
    number = int.from_bytes(b64decode(key.read_bytes().splitlines()[1])[2:10], "little")
    return f"minisign key {number:X} ({ascii(comment)[1:-1]})"


def _not_good(
    file: Path, signature: Path, signers: Path, done: _Done, is_other: bool = False, is_changed: bool = False
) -> SignatureError:
    """Why a signature is not good. is_other: it was made with another key; is_changed: of another file."""
    if is_other:
        return SignatureError(f"{file}: signed with another key than {signers} has")
    if is_changed:
        return SignatureError(f"{file}: not what was signed: the file or its signature was changed")
    return SignatureError(f"{signature}: the signature cannot be checked{_reason(done)}")


def _is_minisign(key: Path) -> bool:
    try:
        beginning = key.read_bytes()[:4096]
    except OSError as error:
        raise SignatureError(f"{key}: the key cannot be read: {error.strerror}") from error
    if any(words in beginning for words in _AGE_FILE):
        raise SignatureError(f"{key}: an age key only encrypts; sign with an ssh or a minisign key")
    return beginning.startswith(_MINISIGN_FILE)


def _beside(file: Path, ending: str) -> Path:
    return file.with_name(f"{file.name}.{ending}")


def _run(name: str, arguments: list[str], data: bytes | None = None, stderr: int | None = subprocess.PIPE) -> _Done:
    program = shutil.which(name)
    if program is None:
        raise SignatureError(f"{name} is missing: install it (Debian: apt-get install {_PACKAGES[name]})")
    return subprocess.run([program, *arguments], input=data, stdout=subprocess.PIPE, stderr=stderr)


def _lines(done: _Done) -> list[str]:
    return [line.strip() for line in (done.stderr or b"").decode(errors="replace").splitlines() if line.strip()]


def _reason(done: _Done) -> str:
    """The first line of what the tool wrote, if it wrote any."""
    return f": {Path(str(done.args[0])).name}: {lines[0]}" if (lines := _lines(done)) else ""
