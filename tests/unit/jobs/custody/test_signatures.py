"""Signatures by ssh-keygen, and lakes compared with what was signed. tests/slow/test_minisign.py is about minisign."""

import json
from pathlib import Path

import pytest

from jobs.custody.manifest import SignatureError, check_signature, check_signed, manifest, sign, signed_document
from jobs.lake import marks
from jobs.lake.integrity import made_from
from jobs.lake.lake import Lake
from tests.support.invoked import invoke
from tests.support.signing import SSH, check_each_refusal, new_key


def test_each_way_in_which_a_signature_of_ssh_is_not_good_has_a_message(tmp_path: Path) -> None:
    assert check_each_refusal(SSH, "sig", tmp_path) == [
        ("signed", "good signature of alice"),
        ("another key", "m.json: signed with another key than bob.ssh.allowed has"),
        ("changed", "m.json: not what was signed: the file or its signature was changed"),
        ("signed again", "good signature of alice"),
        (
            "not a signature",
            "m.json.sig: the signature cannot be checked: ssh-keygen: Couldn't parse signature: missing header",
        ),
        ("no signature", "m.json.sig: the signature is missing"),
        ("no key", "nobody: the key cannot be read: No such file or directory"),
        ("no file", "m.json: the signed file is missing"),
    ]


def test_a_signature_for_another_purpose_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "m.json"
    file.write_text("{}")
    key, signers = new_key(SSH, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("jobs.custody.manifest.NAMESPACE", "git")
        sign(file, key)
    with pytest.raises(SignatureError, match="namespace"):
        check_signature(file, signers)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("untrusted comment: minisign secret key\nRWQ=\n", "minisign is missing: install it (Debian: apt-get"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\n", "ssh-keygen is missing: install it (Debian: apt-get install openssh"),
        ("# created: 2026-11-20T10:00:00Z\nAGE-SECRET-KEY-1QQ\n", "key: an age key only encrypts; sign with an ssh"),
        ("age1qqqq\n", "an age key only encrypts"),
    ],
)
def test_the_tool_follows_from_the_key_and_one_that_is_missing_is_named(
    key: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, path = tmp_path / "m.json", tmp_path / "key"
    file.write_text("{}")
    path.write_text(key)
    monkeypatch.setenv("PATH", str(tmp_path))
    for act in (sign, check_signature):
        for ending in ("sig", "minisig"):
            file.with_name(f"m.json.{ending}").write_text("x")
        with pytest.raises(SignatureError) as caught:
            act(file, path)
        assert message in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1


def test_a_key_that_the_tool_does_not_accept_is_named(tmp_path: Path) -> None:
    file, key = tmp_path / "m.json", tmp_path / "key"
    file.write_text("{}")
    key.write_text("no key\n")
    with pytest.raises(SignatureError, match=r"m\.json: cannot be signed with .*key: ssh-keygen: "):
        sign(file, key)


def test_the_commands_sign_check_and_compare(lake: Lake, cluster: str, tmp_path: Path) -> None:
    (key, signers), file = new_key(SSH, tmp_path), tmp_path / "m.json"
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
