"""Delta's jars and Spark's connector to S3: which ones this version needs, and how they get into their folders."""

import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from evidence.errors import KraftForensicsError
from jobs.config.settings import conf_dir

_MAVEN_SECONDS = 1800


class JarsError(KraftForensicsError):
    """The jars cannot be fetched, or are not the listed ones."""


@dataclass(frozen=True, slots=True)
class JarList:
    """pom: what Maven fetches. sha256: the digest of each jar in hex, by file name."""

    pom: Path
    sha256: dict[str, str]

    def differences(self, folder: Path) -> list[str]:
        """What distinguishes a folder's jars from the listed ones, a line for each jar; empty if they are equal."""
        found = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.glob("*.jar")}
        listed, both = self.sha256, sorted(found.keys() & self.sha256.keys())
        return [
            *(f"{name}: missing" for name in sorted(listed.keys() - found.keys())),
            *(f"{name}: not listed" for name in sorted(found.keys() - listed.keys())),
            *(f"{n}: its SHA-256 is {found[n]}, not {listed[n]}" for n in both if found[n] != listed[n]),
        ]


def delta_jars() -> JarList:
    """The jars that Spark needs for Delta tables."""
    return _listed("pom.xml", "jars.sha256")


def s3_jars() -> JarList:
    """The jars with which Spark reads S3."""
    return _listed("s3-pom.xml", "jars-s3.sha256")


def _listed(pom: str, checksums: str) -> JarList:
    lines = (conf_dir() / checksums).read_text(encoding="utf-8").splitlines()
    return JarList(conf_dir() / pom, {name: digest for digest, name in (line.split() for line in lines)})


def install(jars: JarList, folder: Path, source: Path | None = None) -> bool:
    """Put the listed jars into a folder and delete all other jars there; False if it has exactly these already.

    source: a folder that has the jars; None: Maven fetches them. Nothing in `folder` changes unless all are the listed
    ones. Errors: JarsError.
    """
    if not jars.differences(folder):
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".fetching-", dir=folder) as name:
            fetched = Path(name)
            if source is None:
                _fetch(jars.pom, fetched, folder)
            else:
                for file in (source / name for name in jars.sha256):
                    if file.is_file():
                        shutil.copyfile(file, fetched / file.name)
            if wrong := jars.differences(fetched):
                raise JarsError("\n  ".join([f"{source or jars.pom}: these are not the listed jars:", *wrong]))
            for file in fetched.glob("*.jar"):
                file.replace(folder / file.name)
        for file in folder.glob("*.jar"):
            if file.name not in jars.sha256:
                file.unlink()
    except OSError as error:
        raise JarsError(f"{folder}: cannot be written: {error}. Set spark.jars_dir to another folder.") from error
    return True


def _fetch(pom: Path, into: Path, folder: Path) -> None:
    words = ["--batch-mode", "--quiet", "-f", str(pom), "dependency:copy-dependencies"]
    maven = shutil.which("mvn")
    if maven is None:
        by_hand = " ".join(["mvn", *words, "-DoutputDirectory=DIR"])
        raise JarsError(
            f"Maven (mvn), which fetches the jars for {folder}, is not installed. Install it, or run this on a "
            f"machine that has it and bring DIR here for `kraft-forensics setup --from DIR`:\n  {by_hand}"
        )
    try:
        done = subprocess.run(
            [maven, *words, f"-DoutputDirectory={into}"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_MAVEN_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise JarsError(f"{pom}: Maven did not end within {_MAVEN_SECONDS} s") from error
    if done.returncode:
        said = "\n  ".join((done.stdout + done.stderr).strip().splitlines()[:5])
        raise JarsError(f"{pom}: Maven cannot fetch the jars:\n  {said}")
