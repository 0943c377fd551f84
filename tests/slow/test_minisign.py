"""Signatures by minisign (tests/slow/minisign.sh installs it)."""

import re
import subprocess
from pathlib import Path

import pytest

from jobs.custody.manifest import SignatureError, check_signature, sign
from tests.support.signing import MINISIGN, check_each_refusal, new_key


def test_each_way_in_which_a_signature_of_minisign_is_not_good_has_a_message(tmp_path: Path) -> None:
    found = dict(check_each_refusal(MINISIGN, "minisig", tmp_path))
    good = re.compile(r"good signature of minisign key [0-9A-F]+ \(timestamp:\d+, file:m\.json, hashed\)")
    assert good.fullmatch(found.pop("signed"))
    assert good.fullmatch(found.pop("signed again"))
    assert found.pop("not a signature").startswith("m.json.minisig: the signature cannot be checked: minisign: ")
    assert found == {
        "another key": "m.json: signed with another key than bob.minisign.allowed has",
        "changed": "m.json: not what was signed: the file or its signature was changed",
        "no signature": "m.json.minisig: the signature is missing",
        "no key": "nobody: the key cannot be read: No such file or directory",
        "no file": "m.json: the signed file is missing",
    }


def test_who_signed_is_the_key_that_minisign_names(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text("{}")
    key, signers = new_key(MINISIGN, tmp_path)
    sign(file, key)
    named = signers.read_text().splitlines()[0].split()[-1]
    assert check_signature(file, signers).startswith(f"minisign key {named} (")


def test_a_trusted_comment_cannot_control_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text("{}")
    key, signers = new_key(MINISIGN, tmp_path)
    subprocess.run(["minisign", "-S", "-s", key, "-m", file, "-t", "\x1b[2Jyes"], check=True, capture_output=True)
    assert check_signature(file, signers).endswith(r" (\x1b[2Jyes)")


def test_a_key_that_the_tool_does_not_accept_is_named(tmp_path: Path) -> None:
    file, key = tmp_path / "m.json", tmp_path / "key"
    file.write_text("{}")
    key.write_text("untrusted comment: minisign secret key\nRWQ=\n")
    with pytest.raises(SignatureError, match=r"m\.json: cannot be signed with .*key$"):
        sign(file, key)
