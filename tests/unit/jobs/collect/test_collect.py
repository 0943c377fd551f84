"""Captures of folders that stand for nodes, through the shells that nodes have."""

import gzip
import json
import os
import re
import resource
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from evidence import kinds
from evidence.broker_logs.boot_ids import read_boot_ids
from evidence.capture.files import open_capture
from evidence.redaction import is_secret_config
from tests.support.invoked import invoke
from tests.support.nodes import SHELLS, nodes, program, reached_by, state
from tests.support.paths import ROOT

# Of each log directory of `broker`.
OF_DIRECTORY = {
    ".kafka_cleanshutdown",
    "meta.properties",
    *(f"{name}-offset-checkpoint" for name in ("log-start", "recovery-point", "replication")),
    *(f"orders-{n}/{name}" for n in (0, 1) for name in ("leader-epoch-checkpoint", "partition.metadata")),
    *(f"orders-{n}/{0:020d}.heads" for n in (0, 1)),
}
NO_NAMES, NO_PLACES = ("a.zip", "a.tar", "a.tar.zst", "a.TAR.GZ"), ("orders", "../orders-0", "__cluster_metadata-0")
NO_LOGS = "logs: no folder with server.log found"
SMALL = {"boot_id", "server.properties", *(f"logdir{n}/{path}" for n in (0, 1) for path in OF_DIRECTORY)}


def collect(output: Path, *words: str | Path) -> Result:
    return invoke(["collect", "--output", str(output), *map(str, words)])


def manifest(capture: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((capture / "capture.json").read_text())
    return found


def broker(folder: Path) -> Path:
    """A broker's folder, made up: properties, two log directories with what Kafka allows, its own logs."""
    folder.mkdir()
    (folder / "server.properties").write_text(
        f"process.roles=broker,controller\nnode.id=7\nlog.dirs = {folder}/one , \\\n {folder}/two\n"
    )
    for name in ("one", "two"):
        place = folder / name
        for replica in ("orders-0", "orders-1"):
            (place / replica).mkdir(parents=True)
            (place / replica / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
            (place / replica / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAQACAAAAAAAAAAA\n")
            (place / replica / f"{0:020d}.log").write_bytes(b"records of producers")
        (place / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=7\n")
        for file in ("replication-offset", "recovery-point-offset", "log-start-offset"):
            (place / f"{file}-checkpoint").write_text("0\n1\norders 0 5\n")
        (place / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":9}')
    (folder / "logs").mkdir()
    for file in ("server.log", "state-change.log", "controller.log", "server.log.2026-11-21-00", "kafka-gc.log"):
        (folder / "logs" / file).write_text("[2026-11-21 00:00:00,000] INFO x (kafka.server.X)\n")
    return folder


@pytest.mark.parametrize("shell", SHELLS)
def test_every_file_comes_as_it_is_through_every_shell(shell: str, tmp_path: Path) -> None:
    folders = nodes(tmp_path / "source", (3000, 1))
    before = state(tmp_path / "source")
    words = [word for node, folder in folders.items() for word in ("--node", f"{node}=via:host-{node}:{folder}")]
    done = collect(tmp_path / "capture", "--via", reached_by(shell, tmp_path / "bin"), *words)
    assert (done.exit_code, [line for line in done.stderr.splitlines() if not line.endswith(" files")]) == (0, [])
    assert state(tmp_path / "source") == before
    metadata = {p.name for p in (folders[3000] / "__cluster_metadata-0").iterdir() if "index" not in p.name}
    for node, folder in folders.items():
        came = tmp_path / "capture" / f"node-{node}" / "logdir0"
        copied = {path: digest for path, (digest, _) in state(came).items() if not path.endswith(".heads")}
        assert copied == {path: before[f"{(folder / path).relative_to(tmp_path / 'source')}"][0] for path in copied}
    marks = "replication-offset-checkpoint"
    written = {node["id"]: node.get("written") for node in manifest(tmp_path / "capture")["nodes"]}
    written_s = int((folders[1] / marks).stat().st_mtime)
    assert written == {3000: None, 1: {f"logdir0/{marks}": written_s * 1000}}
    log = tmp_path / "capture" / "node-3000" / "logdir0" / "__cluster_metadata-0"
    assert {p.name for p in log.iterdir()} == {name for name in metadata if not name.endswith(".snapshot")}
    epochs = {p.parent.name for p in folders[1].rglob("leader-epoch-checkpoint")}
    assert {p.parent.name for p in (tmp_path / "capture" / "node-1").rglob("leader-epoch-checkpoint")} == epochs
    assert not list((tmp_path / "capture" / "node-1" / "logdir0").rglob("*.log"))


PROGRAMS = {
    "ssh:admin@host-1": ("ssh", 'while [ "$1" != -- ]; do shift; done; shift 2; exec sh -c "$*"'),
    "kubectl:kafka/pod-0/broker": (
        "kubectl",
        'if [ "$1" = get ]; then echo "$@" > "$0.asked"; printf worker-3; exit; fi\n'
        'while [ "$1" != -- ]; do shift; done; shift; exec "$@"',
    ),
    "docker:kafka-1": ("docker", '[ "$1 $2 $3" = "exec -i kafka-1" ] || exit 1; shift 3; exec "$@"'),
}


@pytest.mark.parametrize("at", PROGRAMS)
def test_through_the_programs_that_reach_nodes(at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, body = PROGRAMS[at]
    program(tmp_path / "bin" / name, body)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    done = collect(tmp_path / "capture", "--node", f"7={at}:{broker(tmp_path / 'kafka')}")
    assert (done.exit_code, done.stderr) == (0, "node 7: done, 30 files\n")
    if name == "kubectl":  # which machine a pod is on is asked of Kubernetes
        assert manifest(tmp_path / "capture")["nodes"][0]["node_name"] == "worker-3"
        asked = (tmp_path / "bin" / "kubectl.asked").read_text()
        assert asked == "get pod --namespace=kafka pod-0 --output=jsonpath={.spec.nodeName}\n"


def test_everything_of_a_broker(tmp_path: Path) -> None:
    folder = broker(tmp_path / "kafka")
    (folder / "one").symlink_to((folder / "one").rename(tmp_path / "disk"))
    done = collect(tmp_path / "capture", "--node", f"7=local:{folder}")
    assert (done.exit_code, done.stdout) == (0, f"{tmp_path / 'capture'}\n")
    found = set(state(tmp_path / "capture"))
    logs = {f"logs/{name}" for name in ("server.log", "state-change.log", "controller.log", "server.log.2026-11-21-00")}
    own = SMALL | logs | {f"listing-logdir{n}.txt.gz" for n in (0, 1)}
    assert found == {f"node-7/{name}" for name in own} | {"capture.json", "SHA256SUMS"}
    listing = gzip.decompress((tmp_path / "capture" / "node-7" / "listing-logdir0.txt.gz").read_bytes()).decode()
    assert re.search(rf" 20 .* {0:020d}\.log$", listing, re.MULTILINE)
    subprocess.run(["sha256sum", "--quiet", "--check", "SHA256SUMS"], cwd=tmp_path / "capture", check=True)
    # A light capture has neither the metadata log nor logs.
    (folder / "one" / "__cluster_metadata-0").mkdir()
    (folder / "one" / "__cluster_metadata-0" / f"{0:020d}.log").write_bytes(b"batches")
    assert collect(tmp_path / "light", "--light", "--node", f"7=local:{folder}").exit_code == 0
    assert set(state(tmp_path / "light" / "node-7")) == SMALL


def test_the_manifest_says_when_where_and_how_far_the_clock_was_off(tmp_path: Path) -> None:
    before_ms = time.time_ns() // 1_000_000
    assert collect(tmp_path / "capture.tar.xz", "--node", f"7=local:{broker(tmp_path / 'kafka')}").exit_code == 0
    after_ms = time.time_ns() // 1_000_000 + 1
    with open_capture(tmp_path / "capture.tar.xz") as capture:
        assert capture.refused == []
        (node,) = capture.manifest.nodes
        files = {file.path: file for file in capture.files}
        boot_id = files["node-7/boot_id"]
        assert boot_id.read() == Path("/proc/sys/kernel/random/boot_id").read_bytes()
        epochs = files["node-7/logdir1/orders-1/leader-epoch-checkpoint"]
        read_within_ms = epochs.read_within_ms(5000)
    assert capture.manifest.collected_by.startswith("kraft-forensics ")
    assert capture.cluster_id == "c"
    assert before_ms <= node.captured_at <= node.captured_at + node.snapshot_duration_ms <= after_ms
    assert abs(node.clock_offset_ms) <= node.clock_offset_error_ms + 1
    assert capture.manifest.clock_error_ms == abs(node.clock_offset_ms) + node.clock_offset_error_ms
    assert (node.roles, node.missing) == ("broker,controller", ())
    assert (epochs.node_id, epochs.captured_at_ms) == (7, node.captured_at)
    assert read_within_ms <= node.snapshot_duration_ms + 20


def proc(name: str) -> str:
    return Path(f"/proc/{name}").read_text()


def test_the_manifest_says_which_machine_it_is_and_when_it_started(tmp_path: Path) -> None:
    before_ms = time.time_ns() / 1e6 - float(proc("uptime").split()[0]) * 1000
    assert collect(tmp_path / "capture", "--node", f"7=local:{broker(tmp_path / 'kafka')}").exit_code == 0
    after_ms = time.time_ns() / 1e6 - float(proc("uptime").split()[0]) * 1000
    with open_capture(tmp_path / "capture") as capture:
        (node,) = capture.manifest.nodes
        (row,) = read_boot_ids(capture, 5000).rows.to_pylist()
    slewed_ms = float(proc("uptime").split()[0]) * 0.5 + 1100
    assert row["boot_id"] == proc("sys/kernel/random/boot_id").strip()
    assert after_ms - slewed_ms * 3 <= row["booted_after_ms"] <= before_ms
    assert after_ms <= row["booted_by_ms"] <= before_ms + slewed_ms * 3
    in_a_container = "4026531836" not in str(Path("/proc/self/ns/pid").readlink())
    assert node.node_name == (None if in_a_container else proc("sys/kernel/hostname").strip())
    secret = Path("/etc/machine-id").read_text().strip() if Path("/etc/machine-id").exists() else "nothing"
    assert node.machine_id != secret
    assert secret not in (tmp_path / "capture" / "capture.json").read_text()
    assert {disk.directory for disk in node.disks} == {"logdir0", "logdir1"}
    on = tmp_path.stat().st_dev
    assert on == (tmp_path / "kafka" / "one").stat().st_dev
    if os.major(on):
        name = Path(f"/sys/dev/block/{os.major(on)}:{os.minor(on)}").resolve().name
        assert (
            all(name.startswith(disk.device or "-") for disk in node.disks)
            or Path(f"/sys/block/{name}/slaves").exists()
        )


@pytest.mark.parametrize(
    ("arguments", "environment", "now", "zone"),
    [
        ("", "TZ=UTC", "CET", "UTC"),
        ("", "TZ=GMT", "CET", "UTC"),
        ("", "TZ=Europe/London", "UTC", None),
        ("", "", "UTC", "UTC"),
        ("", "", "GMT", None),  # in London, in winter
        ("-Duser.timezone=GMT", "TZ=Europe/London", "CET", "UTC"),
        ("-Duser.timezone=GMT+2", "TZ=UTC", "UTC", None),
        ("-Duser.timezone=UTC\n-Duser.timezone=Asia/Kolkata", "", "UTC", None),
    ],
)
def test_a_process_logs_in_utc_only_if_its_zone_is_that_all_year(
    arguments: str, environment: str, now: str, zone: str | None, tmp_path: Path
) -> None:
    (tmp_path / "environ").write_text(f"HOME=/\0{environment}\0")
    script = (ROOT / "jobs" / "collect" / "node.sh").read_text()
    function = re.search(r"^zone_of_process\(\) \{\n.*?^\}\n", script, re.MULTILINE | re.DOTALL)
    assert function is not None
    script = f'date() {{ echo {now}; }}; fact() {{ echo $2; }}; process=$1\n{function[0]}zone_of_process "$2"'
    done = subprocess.run(["sh", "-c", script, "sh", str(tmp_path), arguments], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("" if zone is None else f"{zone}\n", "")


def test_the_journal_says_when_the_machine_ran_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the script that the node's shell gets, what finds the journal and the disks is replaced."""
    runs = [digit * 32 for digit in "abc"]
    listed = "".join(f"{at:3} {run} Mon 2026-11-30 09:38:22 UTC\\n" for at, run in zip((-20, -1, 0), runs, strict=True))
    entry = "__CURSOR=s=1;b=2\\n__REALTIME_TIMESTAMP=1796031503896689\\n__MONOTONIC_TIMESTAMP=5033748405811\\n"
    last = f"printf '{entry}_BOOT_ID=%s\\nMESSAGE=password=hunter2\\n__REALTIME_TIMESTAMP=1\\n' \"$3\""
    program(
        tmp_path / "bin" / "journalctl",
        f"case $* in *--list-boots) printf 'IDX BOOT ID\\n{listed}' ;; *) {last} ;; esac",
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    found = "is_machine=yes; machine_id=id; leaves_of() { echo disk; }; if false; then"
    (tmp_path / "sed").write_text(f's|^  if .* "$is_machine" .*; then$|{found}|; s|/var/log/journal/|{tmp_path}/|\n')
    (tmp_path / "id").mkdir()
    via = f"sh -c 'sed -u -f {tmp_path}/sed | sh -s' {{host}}"
    done = collect(tmp_path / "capture", "--via", via, "--node", f"7=via:x:{broker(tmp_path / 'kafka')}")
    assert (done.exit_code, done.stderr) == (0, "node 7: done, 30 files\n")
    ended = {"at": 1796031503896, "uptime_s": 5033748}
    uuids = [f"{run[:8]}-{run[:4]}-{run[:4]}-{run[:4]}-{run[:12]}" for run in runs[1:]]
    assert manifest(tmp_path / "capture")["nodes"][0]["boots"] == [{"boot_id": uuid, **ended} for uuid in uuids]
    with open_capture(tmp_path / "capture") as capture:
        assert [row["boot_id"] for row in read_boot_ids(capture, 5000).rows.to_pylist()[1:]] == uuids


def test_a_node_that_fails_is_named_and_stops_nobody(tmp_path: Path) -> None:
    folder = broker(tmp_path / "kafka")
    for place in ("one", "two/orders-0"):
        (folder / place).chmod(0)
    weak = f"shift; exec {'' if os.geteuid() else 'setpriv --bounding-set=-dac_override,-dac_read_search'} $* ;;"
    hosts = f"no-*) echo no such host >&2; exit 255 ;; slow-*) sleep 300 & wait ;; weak-*) {weak}"
    words = ["--via", f"sh -c 'case $1 in {hosts} esac' - {{host}}", "--timeout", "3"]
    words += ["--node", f"7=via:weak-host:{folder}/server.properties"]
    started = time.monotonic()
    done = collect(tmp_path / "capture", *words, "--node", "1=via:no-host", "--node", "2=via:slow-host")
    assert time.monotonic() - started < 200
    assert done.exit_code == 1
    assert "node 1: the shell did not start (no such host)" in done.stderr
    assert "node 2: not finished after 3 s" in done.stderr
    assert {node["id"]: node["missing"] for node in manifest(tmp_path / "capture")["nodes"]} == {
        7: [*(f"{p}: no permission to read it" for p in ("logdir0", "logdir1/orders-0")), NO_LOGS],
        1: ["the rest: the shell did not start (no such host)"],
        2: ["the rest: not finished after 3 s"],
    }
    with open_capture(tmp_path / "capture") as capture:
        assert capture.nodes == {7}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["capture", "--via", "false {host}", "--node", "1=via:a"], "no node sent a file"),
        *(([name, "--node", "7=local:"], "a capture is a folder, a .tar.gz or a .tar.xz") for name in NO_NAMES),
        *((["a", "--node", "7=local:", "--replica-logs", n], "is not the name of a partition") for n in NO_PLACES),
    ],
)
def test_what_cannot_be_collected_leaves_nothing(words: list[str], message: str, tmp_path: Path) -> None:
    done = collect(tmp_path / words[0], *words[1:])
    assert (done.exit_code, done.stdout, list(tmp_path.iterdir()), message in str(done.exception)) == (1, "", [], True)


def test_a_capture_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "capture").mkdir()
    done = collect(tmp_path / "capture", "--node", f"7=local:{tmp_path}")
    assert "exists already" in str(done.exception)
    assert list(tmp_path.rglob("*")) == [tmp_path / "capture"]
    folder = broker(tmp_path / "kafka")
    (folder / "logs" / "server.log").write_bytes(os.urandom(99_000))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        done = collect(tmp_path / "full.tar.gz", "--node", f"7=local:{folder}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    (kept,) = tmp_path.glob(".full*")
    assert str(done.exception) == f"{tmp_path}/full.tar.gz: cannot be written: File too large. What came is in {kept}."


def while_reading(tool: str, command: str, folder: Path) -> str:
    """A command for --via: a shell whose `tool` runs a command first, each time."""
    fake = program(folder / "bin" / tool, f'{command}\nexec {shutil.which(tool)} "$@"')
    return f"env PATH={fake.parent}:{os.environ['PATH']} NODE={{host}}"


def test_a_file_that_grows_comes_up_to_the_size_seen_first(tmp_path: Path) -> None:
    folder = broker(tmp_path / "kafka")
    log = folder / "logs" / "server.log"
    log.write_bytes(b"0123456789abcde\n" * 100_000)
    via = while_reading("head", f"echo more >> '{log}'", tmp_path)
    done = collect(tmp_path / "capture", "--via", via, "--node", f"7=via:x:{folder}")
    copy = (tmp_path / "capture" / "node-7" / "logs" / "server.log").read_bytes()
    assert done.exit_code == 0
    assert 1_600_000 <= len(copy) < log.stat().st_size
    assert log.read_bytes().startswith(copy)


# What a tool of the node's shell does first: the file and the names that are left out, with their lines.
DISTURBED = {
    # Rotated at each read: the old file keeps its inode.
    "rotated": (
        ("head", "mv '{0}/logs/server.log' '{0}/'$$; cp '{0}/'$$ '{0}/logs/server.log'"),
        ["logs/server.log: it was cut, replaced or removed while it was read"],
    ),
    "restless": (
        ("cksum", "for f in one/replication-offset two/orders-1/leader-epoch; do echo x >> '{0}'/$f-checkpoint; done"),
        [
            "logdir0/replication-offset-checkpoint: it changed or went away while it was read",
            "logdir1/orders-1/leader-epoch-checkpoint: it changed or went away while it was read",
        ],
    ),
    # The first `ls` comes after the offset checkpoints and the marker.
    "started": (
        ("ls", "rm -f '{0}/one/.kafka_cleanshutdown'"),
        ["logdir0/.kafka_cleanshutdown: left out: the broker may have started while its files were read"],
    ),
}


@pytest.mark.parametrize("name", DISTURBED)
def test_what_does_not_rest_while_it_is_read_is_left_out_and_named(name: str, tmp_path: Path) -> None:
    (tool, command), lines = DISTURBED[name]
    folder = broker(tmp_path / "kafka")
    via = while_reading(tool, command.format(folder), tmp_path)
    done = collect(tmp_path / "capture", "--via", via, "--node", f"7=via:x:{folder}")
    (node,) = manifest(tmp_path / "capture")["nodes"]
    assert (done.exit_code, node["missing"]) == (1, lines)
    logs = {f"logs/{name}" for name in ("server.log", "state-change.log", "controller.log", "server.log.2026-11-21-00")}
    found = {path for path in state(tmp_path / "capture" / "node-7") if "listing" not in path}
    assert found == (SMALL | logs) - {line.split(": ")[0] for line in lines}


def test_names_that_no_kafka_gives_do_no_harm(tmp_path: Path) -> None:
    folder = broker(tmp_path / "kafka $(touch pwned) 'x'")
    names = [
        *("a b-0", "a'b-0", 'a"b-0', "a\nD\nb-0", "$(touch pwned)-0", "`touch pwned`-0", "-rf-0", "*-0", "\udcff-0"),
        *("é-0", "a;b|c&-0"),
    ]
    for name in names:
        (folder / "one" / name).mkdir()
        (folder / "one" / name / "leader-epoch-checkpoint").write_text("0\n0\n")
    (folder / "one" / "link-0").symlink_to("/etc")
    (folder / "one" / "orders-0" / "leader-epoch-checkpoint").unlink()
    (folder / "one" / "orders-0" / "leader-epoch-checkpoint").symlink_to("/etc/passwd")
    zeros = b"0\n\0\0\0\xff\n\n"
    (folder / "two" / "recovery-point-offset-checkpoint").write_bytes(zeros)
    (folder / "two" / "orders-0" / "leader-epoch-checkpoint").write_bytes(zeros)
    os.mkfifo(folder / "logs" / "server.log.1")
    before = state(folder)
    for output in (tmp_path / "capture", tmp_path / "capture.tar.gz"):
        done = collect(output, "--node", f"7=local:{folder}")
        assert done.exit_code == 1
        assert sorted(line for line in done.stderr.splitlines() if "files" not in line) == [
            "node 7: logdir0/link-0: a link: not followed",
            "node 7: logdir0/orders-0/leader-epoch-checkpoint: a link: not followed",
            "node 7: logs/server.log.1: not a regular file",
        ]
        with open_capture(output) as capture:
            found = [f for f in capture.files if f.kind == kinds.LEADER_EPOCH]
            # Of the two log directories' four own ones a link is left out; a name of two lines is nobody's topic.
            assert (len(found), capture.refused) == (len(names) - 1 + 3, [])
            assert sum(f.read() == zeros for f in capture.files if f.size_bytes == len(zeros)) == 2
    assert state(folder) == before
    assert not [path for path in tmp_path.rglob("pwned*") if path.name == "pwned"]
    subprocess.run(["sha256sum", "--quiet", "--check", "SHA256SUMS"], cwd=tmp_path / "capture", check=True)


SECRETS = """
# ssl.keystore.password=s3cret-1
ssl.keystore.password=s3cret-2
ssl.key.password : s3cret-3
ssl.keystore.key s3cret-4
ssl.truststore.certificates=s3cret-5
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
   username="admin" \\
   password="s3cret-6";
listener.name.sasl_ssl.plain.sasl.jaas.config = s3cret-7
ssl.keystore.passwor\\u0064=s3cret-8
plugin.url=https://user:s3cret-9@host/
plugin.options=user=x password=s3cret-10
plugin.api.key=s3cret-11
basic.auth.user.info=user:s3cret-12
config.with.end=PlainLoginModule s3cret-13 \\"""


# Those of evidence/redaction.py, which finds them again where a capture came another way.
SECRET_NAMES = [
    *("ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates", "ssl.key.password"),
    *("sasl.jaas.config", "sasl.oauthbearer.assertion.private.key.passphrase", "delegation.token.secret.key"),
    *("password.encoder.old.secret", "x.passwd", "x.credentials", "x.private.key", "x.master.key", "x.apikey"),
    "x.token",
]


def test_secrets_do_not_leave_the_node(tmp_path: Path) -> None:
    assert all(is_secret_config(name) for name in SECRET_NAMES)
    folder = broker(tmp_path / "kafka")
    with (folder / "server.properties").open("a") as out:
        out.write("broker.session.timeout.ms=6000\r\ncontroller.quorum.voters=1@a:1,\\\n  2@b:2\n")
        out.write("".join(f"{name}=s3cret\n" for name in SECRET_NAMES) + SECRETS)
    assert collect(tmp_path / "capture", "--node", f"7=local:{folder}").exit_code == 0
    text = (tmp_path / "capture" / "node-7" / "server.properties").read_text()
    files = [path for path in (tmp_path / "capture").rglob("*") if path.is_file()]
    assert [path for path in files if b"s3cret" in path.read_bytes()] == []
    assert text.count("[redacted]") == len(SECRET_NAMES) + 12
    kept = dict(line.split("=", 1) for line in text.splitlines())
    assert {kept[name] for name in SECRET_NAMES} == {"[redacted]"}
    assert kept["broker.session.timeout.ms"] == "6000"
    assert kept["controller.quorum.voters"] == "1@a:1,2@b:2"
    assert kept["node.id"] == "7"


def test_producers_data_comes_only_of_topics_that_are_named(tmp_path: Path) -> None:
    folder = broker(tmp_path / "kafka")
    for n in (5, 20):
        (folder / "one" / "orders-0" / f"{n:020d}.log").write_bytes(b"more")
    (folder / "one" / "orders-eu-0").mkdir()
    (folder / "one" / "orders-eu-0" / f"{0:020d}.log").write_bytes(b"of another topic")
    collect(tmp_path / "without", "--node", f"7=local:{folder}")
    assert not list((tmp_path / "without").rglob("0*.log"))
    collect(tmp_path / "with", "--node", f"7=local:{folder}", "--replica-tails", "orders")
    place = tmp_path / "with" / "node-7"
    assert sorted(p.relative_to(place).as_posix() for p in place.rglob("0*.log")) == [
        f"logdir0/orders-0/{20:020d}.log",
        f"logdir0/orders-1/{0:020d}.log",
        f"logdir1/orders-0/{0:020d}.log",
        f"logdir1/orders-1/{0:020d}.log",
    ]


def test_whole_logs_come_only_of_partitions_that_are_named(tmp_path: Path) -> None:
    folder = broker(tmp_path / "kafka")
    replica = folder / "one" / "orders-0"
    for name in (f"{5:020d}.log", f"{5:020d}.snapshot", f"{5:020d}.index", "leader-epoch-checkpoint"):
        (replica / name).write_bytes(b"0\n0\n" if name.startswith("leader") else b"more")
    words = ["--light", "--node", f"7=disk:{folder}", "--replica-logs", "orders-0,orders-9"]
    done = collect(tmp_path / "disk", *words)
    assert (done.exit_code, "orders-9: no log directory" in done.output) == (1, True)
    assert "only its owner can read it" in done.output
    place = tmp_path / "disk" / "node-7" / "logdir0" / "orders-0"
    assert {p.name for p in place.glob("0*")} >= {f"{5:020d}.log", f"{5:020d}.snapshot"}
    assert not list((tmp_path / "disk").rglob("*.index"))
    assert not list((tmp_path / "disk").rglob("orders-1/*.log"))
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "disk").rglob("*")}
    assert modes == {0o700, 0o600}
    # Nothing of this machine: the disk may have been another one's.
    of_machine = {"uptime_s", "zone", "machine_id", "node_name", "disks"}
    assert of_machine.isdisjoint(manifest(tmp_path / "disk")["nodes"][0])
    assert not list((tmp_path / "disk").rglob("boot_id"))
    collect(tmp_path / "packed.tar.gz", *words)
    assert (tmp_path / "packed.tar.gz").stat().st_mode & 0o777 == 0o600


def test_rotated_logs_from_a_time_on(tmp_path: Path) -> None:
    folder = broker(tmp_path / "kafka")
    for name, hours in (("server.log.2026-11-21-00", 48), ("state-change.log.2.gz", 3), ("controller.log.1", 1)):
        (folder / "logs" / name).write_text("x\n")
        at = time.time() - hours * 3600
        os.utime(folder / "logs" / name, (at, at))
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 4 * 3600))
    collect(tmp_path / "capture", "--node", f"7=local:{folder}", "--since", since)
    assert sorted(p.name for p in (tmp_path / "capture" / "node-7" / "logs").iterdir()) == [
        *("controller.log", "controller.log.1", "server.log", "state-change.log", "state-change.log.2.gz")
    ]


def test_places_that_are_named(tmp_path: Path) -> None:
    folder = broker(tmp_path / "kafka")
    (folder / "server.properties").rename(folder / "x.properties")
    (folder / "meta" / "__cluster_metadata-0").mkdir(parents=True)
    (folder / "meta" / "meta.properties").write_text("cluster.id=c\nnode.id=7\n")
    (folder / "meta" / "__cluster_metadata-0" / f"{0:020d}.log").write_bytes(b"")
    (folder / "logs").rename(tmp_path / "elsewhere")
    places = f'properties = "{folder}/x.properties"\nlog_dirs = ["{folder}/two"]\nlogs = "{tmp_path}/elsewhere"\n'
    nodes = tmp_path / "nodes.toml"
    nodes.write_text(f'[[node]]\nid = 7\nat = "local:"\n{places}metadata_log_dir = "{folder}/meta"\n')
    done = collect(tmp_path / "capture", "--nodes", nodes)
    found = set(state(tmp_path / "capture" / "node-7"))
    assert done.exit_code == 0
    assert f"metadata/__cluster_metadata-0/{0:020d}.log" in found
    assert {"logdir0/replication-offset-checkpoint", "server.properties", "logs/server.log"} <= found
    assert not [name for name in found if name.startswith("logdir1")]
    nodes.write_text(f'[[node]]\nid = 8\nat = "local:"\n{places}')
    other = collect(tmp_path / "other", "--nodes", nodes)
    assert "node 8: logdir0/meta.properties: is of node 7, its files count as that node's" in other.stderr
    assert other.exit_code == 1
