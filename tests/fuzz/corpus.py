"""Real files to be damaged: small pieces of every kind of evidence, from the bundled capture and the samples."""

import gzip
import io
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from evidence import kinds
from evidence.capture.files import open_capture
from tests.support.paths import ORACLE, ROOT, capture

PIECE_BYTES = 12 << 10
LOG = "controllers/3000/__cluster_metadata-0/00000000000000000000.log"
SAMPLES = ROOT / "tests" / "samples"
# Files of kinds of which no sample is real: manifests, and heads of batches.
MADE = Path(__file__).with_name("seeds")


@dataclass(frozen=True, slots=True)
class Seed:
    """A file to be damaged. name: its path inside a capture, which decides how it is read."""

    name: str
    data: bytes


def build() -> list[Seed]:
    """One to three pieces of every kind, at most PIECE_BYTES each; always the same."""
    files = sorted(file for file in MADE.rglob("*") if file.is_file())
    made = [Seed(str(file.relative_to(MADE)), file.read_bytes()) for file in files]
    seeds = [*_captured(), *_oracle(), *_samples(), *made]
    few = [s for s in seeds if len(s.data) < 2000][:6]
    return [*seeds, Seed("c.tar", _tar(few, "w")), Seed("c.tar.gz", _tar(few, "w:gz")), Seed("c.zip", _zip(few))]


def _captured() -> list[Seed]:
    """Of the real capture two files of each kind; of segments and snapshots a piece that ends in the middle."""
    found: dict[str, list[Seed]] = {}
    with open_capture(capture("unclean")) as opened:
        for file in opened.files:
            of_kind = found.setdefault(file.kind, [])
            if len(of_kind) < 2 and file.size_bytes > 0 and file.kind != kinds.OTHER:
                of_kind.append(Seed(file.path, file.read()[:PIECE_BYTES]))
    return [seed for of_kind in found.values() for seed in of_kind]


def every_record() -> Seed:
    """A log with records of every type; of the file only its beginning."""
    return Seed(LOG, (ORACLE / "every-record.log").read_bytes()[:PIECE_BYTES])


def _oracle() -> list[Seed]:
    seeds = [every_record(), Seed(LOG, (ORACLE / "every-record.log").read_bytes()[-PIECE_BYTES:])]
    for file in sorted(ORACLE.glob("*dump-log*.txt.gz")):
        text = gzip.decompress(file.read_bytes())
        seeds.append(Seed(f"text/{file.stem}", text[:PIECE_BYTES]))
        if "skip" in file.name:
            bare = [line.split(b"payload: ", 1)[1] for line in text.splitlines() if b"payload: " in line]
            seeds.append(Seed("text/payloads.txt", b"\n".join(bare)[:PIECE_BYTES]))
    return seeds


def _samples() -> list[Seed]:
    files = [f for f in sorted(SAMPLES.rglob("*")) if f.is_file() and f.name != "README.md"]
    return [Seed(_placed(f.relative_to(SAMPLES)), f.read_bytes()[:PIECE_BYTES]) for f in files]


def _placed(path: Path) -> str:
    """A sample as a file of broker 1: without a node most sources are held back before they are looked at."""
    return str(PurePosixPath("1795221694071/broker-1", *path.parts))


def _tar(seeds: list[Seed], mode: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:  # type: ignore[call-overload]
        for number, seed in enumerate(seeds):
            info = tarfile.TarInfo(f"c/{number}/{seed.name}")
            info.size = len(seed.data)
            tar.addfile(info, io.BytesIO(seed.data))
    return out.getvalue()


def _zip(seeds: list[Seed]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as zipped:
        for number, seed in enumerate(seeds):
            zipped.writestr(f"c/{number}/{seed.name}", seed.data)
    return out.getvalue()
