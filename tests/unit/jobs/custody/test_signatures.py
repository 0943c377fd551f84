"""Signatures by ssh-keygen, and lakes compared with what was signed."""

import json
import subprocess
from pathlib import Path

import pytest

from jobs.custody.manifest import SignatureError, check_signature, check_signed, manifest, sign, signed_document
from jobs.lake import marks
from jobs.lake.integrity import made_from
from jobs.lake.lake import Lake
from tests.support.invoked import invoke


def new_key(folder: Path, name: str = "alice") -> tuple[Path, Path]:
    """A secret key, and the file for `verify --allowed-signers`."""
    key, signers = folder / name, folder / f"{name}.allowed"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    signers.write_text(f"{name} {Path(f'{key}.pub').read_text()}")
    return key, signers


def test_each_way_in_which_a_signature_is_not_good_has_a_message(tmp_path: Path) -> None:
    def message(signers: Path) -> str:
        try:
            return f"good signature of {check_signature(file, signers)}"
        except SignatureError as error:
            return str(error).replace(f"{tmp_path}/", "")

    file = tmp_path / "m.json"
    file.write_text("{}")
    key, signers = new_key(tmp_path)
    signature = sign(file, key)
    assert message(signers) == "good signature of alice"
    assert message(new_key(tmp_path, "bob")[1]) == "m.json: signed with another key than bob.allowed has"
    file.write_text("{ }")
    assert message(signers) == "m.json: not what was signed: the file or its signature was changed"
    assert sign(file, key) == signature == tmp_path / "m.json.sig"
    assert message(signers) == "good signature of alice"
    assert message(tmp_path / "nobody") == "nobody: the list of signers is missing"
    signature.write_text("no signature\n")
    reason = "ssh-keygen: Couldn't parse signature: missing header"
    assert message(signers) == f"m.json.sig: the signature cannot be checked: {reason}"
    signature.unlink()
    assert message(signers) == "m.json.sig: the signature is missing"
    file.unlink()
    assert message(signers) == "m.json: the signed file is missing"


def test_a_signature_for_another_purpose_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "m.json"
    file.write_text("{}")
    key, signers = new_key(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("jobs.custody.manifest.NAMESPACE", "git")
        sign(file, key)
    with pytest.raises(SignatureError, match="namespace"):
        check_signature(file, signers)


def test_a_tool_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "m.json"
    for each in (file, tmp_path / "m.json.sig", tmp_path / "key"):
        each.write_text("x")
    monkeypatch.setenv("PATH", str(tmp_path))
    for act in (sign, check_signature):
        file.with_name("m.json.sig").write_text("x")
        with pytest.raises(SignatureError, match="ssh-keygen is missing: install it"):
            act(file, tmp_path / "key")


def test_a_key_that_the_tool_does_not_accept_is_named(tmp_path: Path) -> None:
    file, key = tmp_path / "m.json", tmp_path / "key"
    file.write_text("{}")
    key.write_text("no key\n")
    with pytest.raises(SignatureError, match=r"m\.json: cannot be signed with .*key: ssh-keygen: "):
        sign(file, key)


def test_the_commands_sign_check_and_compare(lake: Lake, cluster: str, tmp_path: Path) -> None:
    (key, signers), file = new_key(tmp_path), tmp_path / "m.json"
    root = ["--lake", str(lake.root)]
    written = invoke(["manifest", *root, "--output", str(file), "--sign", str(key)])
    assert (written.exit_code, file.with_name("m.json.sig").is_file()) == (0, True)
    verify = ["verify", *root, "--signed", str(file), "--allowed-signers", str(signers), "--format", "csv"]
    checked = invoke(verify)
    assert checked.exit_code == 0
    assert "good signature of alice" in checked.output
    file.write_text(file.read_text().replace("controllers/3000", "controllers/3009"))
    refused = invoke(verify)
    assert "not what was signed" in str(refused.exception)


def test_a_younger_lake_has_all_that_was_signed_and_one_with_another_chain_has_not(lake: Lake, cluster: str) -> None:
    signed = manifest(lake, cluster)
    verdict = {"cluster_id": cluster, "made_from": made_from(lake, cluster)}
    lake.put("findings", cluster, lake.read("findings", cluster).slice(1), about={})
    assert [list(check_signed(lake, cluster, document)) for document in (signed, verdict)] == [[], []]
    _make_the_newest_commit_anew(lake, "metadata_records")
    for document in (signed, verdict):
        found = list(check_signed(lake, cluster, document))
        assert [(difference.table, difference.what) for difference in found] == [("metadata_records", "not_as_signed")]
    others = {capture["capture"]: "0" * 64 for capture in signed["captures"]}
    found = list(check_signed(lake, cluster, {"cluster_id": cluster, "captures": others, "tables": {}}))
    assert [(difference.table, difference.what) for difference in found] == [("evidence_files", "not_as_signed")]


def _make_the_newest_commit_anew(lake: Lake, table: str) -> None:
    """As somebody does who writes other rows and then a chain of digests that fits them."""
    newest = max((Path(str(lake.root)) / table / "_delta_log").glob("*.json"))
    lines = [json.loads(line) for line in newest.read_text().splitlines()]
    for line in lines:
        if "commitInfo" in line:
            metadata = json.loads(line["commitInfo"]["userMetadata"])
            metadata["mark"]["files"] = "0" * 64
            metadata["link"] = marks.link_of(metadata)
            line["commitInfo"]["userMetadata"] = json.dumps(metadata)
    newest.write_text("\n".join(map(json.dumps, lines)) + "\n")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"cluster_id": "x", "tables": []}', '{"made_from": 3}', '"text"'])
def test_any_other_file_is_only_checked_for_its_signature(content: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text(content)
    assert signed_document(file) is None
