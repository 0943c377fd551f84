"""Keys of ssh-keygen and minisign, made for a test, without passwords."""

import subprocess
from pathlib import Path

SSH, MINISIGN = "ssh", "minisign"


def new_key(kind: str, folder: Path, name: str = "alice") -> tuple[Path, Path]:
    """A secret key, and the file for `verify --allowed-signers`."""
    key, signers = folder / f"{name}.{kind}", folder / f"{name}.{kind}.allowed"
    if kind == MINISIGN:
        subprocess.run(["minisign", "-G", "-W", "-p", signers, "-s", key], check=True, capture_output=True)
        return key, signers
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    signers.write_text(f"{name} {Path(f'{key}.pub').read_text()}")
    return key, signers


def check_each_refusal(kind: str, ending: str, folder: Path) -> list[tuple[str, str]]:
    """(what was done, the message) for each way in which a signature is not good."""
    from jobs.custody.manifest import SignatureError, check_signature, sign

    def message(signers: Path) -> str:
        try:
            return f"good signature of {check_signature(file, signers)}"
        except SignatureError as error:
            return str(error).replace(f"{folder}/", "")

    file = folder / "m.json"
    file.write_text("{}")
    key, signers = new_key(kind, folder)
    signature = sign(file, key)
    assert signature == folder / f"m.json.{ending}"
    found = [("signed", message(signers)), ("another key", message(new_key(kind, folder, "bob")[1]))]
    file.write_text("{ }")
    found.append(("changed", message(signers)))
    sign(file, key)
    found.append(("signed again", message(signers)))
    signature.write_text("no signature\n")
    found.append(("not a signature", message(signers)))
    signature.unlink()
    found.append(("no signature", message(signers)))
    found.append(("no key", message(folder / "nobody")))
    file.unlink()
    return [*found, ("no file", message(signers))]
