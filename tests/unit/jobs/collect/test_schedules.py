"""examples/schedule: what systemd and Kubernetes would run is run here, as they would run it, over local nodes."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from evidence.capture.files import open_capture
from jobs.collect.targets import check_targets, read_nodes
from tests.support.nodes import nodes
from tests.support.paths import ROOT

FOLDER = ROOT / "examples" / "schedule"
MANIFEST = FOLDER / "strimzi.yaml"
UNITS = ("kraft-forensics-collect", "kraft-forensics-collect-light")
FOLDERS = dict(zip(UNITS, ("kraft-forensics/captures", "kraft-forensics/rounds"), strict=True))
PROGRAMS = Path(sys.executable).parent

# The fields of Kubernetes' API (1.34) that the manifest uses. `*` the API requires it; `[]` a list; after the colon its
# type: another of these, or one of YAML's; `dict` any names with texts.
API = {
    "ServiceAccount": "*apiVersion:str *kind:str *metadata:Metadata",
    "Role": "*apiVersion:str *kind:str *metadata:Metadata rules[]:Rule",
    "Rule": "apiGroups[]:str resources[]:str *verbs[]:str resourceNames[]:str",
    "RoleBinding": "*apiVersion:str *kind:str *metadata:Metadata *roleRef:RoleRef subjects[]:Subject",
    "RoleRef": "*apiGroup:str *kind:str *name:str",
    "Subject": "*kind:str *name:str namespace:str apiGroup:str",
    "ConfigMap": "*apiVersion:str *kind:str *metadata:Metadata data:dict",
    "PersistentVolumeClaim": "*apiVersion:str *kind:str *metadata:Metadata *spec:ClaimSpec",
    "ClaimSpec": "*accessModes[]:str *resources:Resources storageClassName:str",
    "Metadata": "*name:str namespace:str",
    "CronJob": "*apiVersion:str *kind:str *metadata:Metadata *spec:CronJobSpec",
    "CronJobSpec": "*schedule:str timeZone:str concurrencyPolicy:str *jobTemplate:JobTemplate",
    "JobTemplate": "*spec:JobSpec",
    "JobSpec": "backoffLimit:int activeDeadlineSeconds:int *template:PodTemplate",
    "PodTemplate": "*spec:PodSpec",
    "PodSpec": "serviceAccountName:str *restartPolicy:str securityContext:PodSecurity *containers[]:Container "
    "volumes[]:Volume",
    "PodSecurity": "runAsNonRoot:bool runAsUser:int fsGroup:int fsGroupChangePolicy:str seccompProfile:Seccomp",
    "Seccomp": "*type:str",
    "Container": "*name:str *image:str command[]:str args[]:str resources:Resources securityContext:Security "
    "volumeMounts[]:Mount",
    "Resources": "requests:dict limits:dict",
    "Security": "allowPrivilegeEscalation:bool capabilities:Capabilities",
    "Capabilities": "drop[]:str add[]:str",
    "Mount": "*name:str *mountPath:str readOnly:bool",
    "Volume": "*name:str configMap:ConfigMapVolume persistentVolumeClaim:ClaimVolume",
    "ConfigMapVolume": "*name:str",
    "ClaimVolume": "*claimName:str",
}
VERSIONS = {
    "CronJob": "batch/v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
}


def faults(value: Any, kind: str, place: str) -> Iterator[str]:
    """Unknown fields, required ones that are missing, and values of another type."""
    if kind == "dict":
        if not all(type(part) is str for pair in value.items() for part in pair):
            yield f"{place}: not a text"
    elif kind not in API:
        if type(value).__name__ != kind:
            yield f"{place}: {value!r} is no {kind}"
    elif type(value) is not dict:
        yield f"{place}: {value!r} is no {kind}"
    else:
        fields = {name.strip("*"): of for name, of in (field.split(":") for field in API[kind].split())}
        required = {field.strip("*").partition(":")[0] for field in API[kind].split() if field.startswith("*")}
        yield from (f"{place}: lacks {name}" for name in sorted(required - {*value, *(f"{n}[]" for n in value)}))
        for name, inner in value.items():
            if name in fields:
                yield from faults(inner, fields[name], f"{place}.{name}")
            elif f"{name}[]" not in fields:
                yield f"{place}: unknown field {name}"
            elif type(inner) is not list:
                yield f"{place}.{name}: no list"
            else:
                for number, one in enumerate(inner):
                    yield from faults(one, fields[f"{name}[]"], f"{place}.{name}[{number}]")


def objects(text: str) -> dict[tuple[str, str], Any]:
    """The manifest's objects by kind and name."""
    return {(found["kind"], found["metadata"]["name"]): found for found in yaml.safe_load_all(text)}


def faults_of(text: str) -> list[str]:
    found = objects(text)
    versions = [
        f"{kind}: apiVersion" for (kind, _), one in found.items() if one["apiVersion"] != VERSIONS.get(kind, "v1")
    ]
    return versions + [line for (kind, name), one in found.items() for line in faults(one, kind, f"{kind} {name}")]


@pytest.fixture
def local_nodes(tmp_path: Path) -> Path:
    """A file with two nodes of a real cluster, as folders of this machine."""
    places = nodes(tmp_path / "cluster", (3000, 1))
    entries = (f'[[node]]\nid = {node}\nat = "local:"\npath = "{place}"\n' for node, place in places.items())
    file = tmp_path / "nodes.toml"
    file.write_text("\n".join(entries))
    return file


def collected(command: list[str], folder: Path, **more: str) -> Path:
    """The capture that a command has made in a folder."""
    environment = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", **more}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [path] = folder.iterdir()
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}T\d{6}Z-[a-z-]+\.tar\.gz", path.name)
    with open_capture(path) as opened:
        assert opened.cluster_id or "-light" in path.name
    return path


# systemd -------------------------------------------------------------------------------------------------------------


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read_string((FOLDER / name).read_text(encoding="utf-8"))
    return parser


def start_of(name: str, instance: str) -> list[str]:
    """The words of ExecStart as systemd passes them on: quotes, then specifiers, then dollar signs."""
    words = shlex.split(unit(name)["Service"]["ExecStart"])
    words = [re.sub("%([%i])", lambda found: {"%": "%", "i": instance}[found[1]], word) for word in words]
    assert not [word for word in words if re.search(r"(?<!\$)\$(\$\$)*(?!\$)", word)], (
        "a variable that systemd replaces"
    )
    return [word.replace("$$", "$") for word in words]


@pytest.mark.parametrize("name", UNITS)
def test_a_service_collects(name: str, tmp_path: Path, local_nodes: Path) -> None:
    shell, option, line = start_of(f"{name}@.service", "payments")
    assert unit(f"{name}@.service")["Service"]["StateDirectory"] == FOLDERS[name] + "/%i"
    line = line.replace("/etc/kraft-forensics/payments.toml", str(local_nodes))
    line = line.replace("/opt/kraft-forensics/bin", str(PROGRAMS))
    (tmp_path / "state").mkdir()
    path = collected([shell, option, line], tmp_path / "state", STATE_DIRECTORY=str(tmp_path / "state"))
    assert path.name.endswith("-payments-light.tar.gz" if "light" in name else "-payments.tar.gz")


def test_systemd_finds_no_fault(tmp_path: Path) -> None:
    """Where systemd is. Its timers name their services by the same name everywhere."""
    assert {path.name for path in FOLDER.glob("*@*")} == {
        f"{n}@.{kind}" for n in UNITS for kind in ("service", "timer")
    }
    units = [f"{name}@payments.{kind}" for name in UNITS for kind in ("service", "timer")]
    for name in units:
        shutil.copy(FOLDER / name.replace("payments", ""), tmp_path / name)
    if program := shutil.which("systemd-analyze"):
        done = subprocess.run([program, "verify", *(tmp_path / name for name in units)], capture_output=True, text=True)
        ours = [line for line in done.stderr.splitlines() if "kraft-forensics" in line]
        assert (done.returncode, ours) == (0, [])
    assert [unit(f"{name}@.timer")["Timer"]["OnCalendar"] for name in UNITS] == [
        "*-*-* 23:00:00 UTC",
        "*-*-* *:30:00 UTC",
    ]


# Kubernetes ----------------------------------------------------------------------------------------------------------


def test_the_manifest_has_only_fields_of_the_api() -> None:
    assert faults_of(MANIFEST.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("right", "wrong", "fault"),
    [
        ("backoffLimit", "backofLimit", "unknown field backofLimit"),
        ("claimName:", "claim:", "lacks claimName"),
        ("storage: 50Gi", "storage: 50", "not a text"),
        ("runAsUser: 65532", 'runAsUser: "65532"', "is no int"),
        ("verbs: [get]", "verbs: get", "no list"),
        ("batch/v1", "batch/v1beta1", "CronJob: apiVersion"),
    ],
)
def test_a_fault_of_the_manifest_is_found(right: str, wrong: str, fault: str) -> None:
    text = MANIFEST.read_text(encoding="utf-8")
    assert [line for line in faults_of(text.replace(right, wrong)) if fault in line]


def test_the_role_has_the_pods_of_the_file_of_nodes_and_no_others(tmp_path: Path) -> None:
    found = objects(MANIFEST.read_text(encoding="utf-8"))
    file = tmp_path / "nodes.toml"
    file.write_text(found["ConfigMap", "kraft-forensics"]["data"]["nodes.toml"])
    targets, via = read_nodes(file)
    check_targets(targets, via)
    pods = [target.at.removeprefix("kubectl:kafka/").removesuffix("/kafka") for target in targets]
    assert [int(pod.rpartition("-")[2]) for pod in pods] == [target.id for target in targets]
    assert found["Role", "kraft-forensics"]["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": pods},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"], "resourceNames": pods},
    ]
    # What kubectl asks of the API for the two commands of a node.
    assert targets[0].command(None)[:3] == ["kubectl", "exec", "-i"]
    assert (targets[0].host_command() or [])[:3] == ["kubectl", "get", "pod"]


@pytest.mark.parametrize("name", UNITS)
def test_a_cron_job_collects(name: str, tmp_path: Path, local_nodes: Path) -> None:
    found = objects(MANIFEST.read_text(encoding="utf-8"))
    pod = found["CronJob", name]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert pod["serviceAccountName"] in {one for kind, one in found if kind == "ServiceAccount"}
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert pod["volumes"][0]["configMap"]["name"] in {one for kind, one in found if kind == "ConfigMap"}
    claim = pod["volumes"][1]["persistentVolumeClaim"]["claimName"]
    assert claim in {one for kind, one in found if kind == "PersistentVolumeClaim"}
    [line] = container["args"]
    line = line.replace("$$", "$").replace("/etc/kraft-forensics/nodes.toml", str(local_nodes))
    line = line.replace("/data", str(tmp_path / "kraft-forensics"))
    path = collected([*container["command"], line], tmp_path / FOLDERS[name] / "my-cluster")
    assert path.name.endswith("-my-cluster-light.tar.gz" if "light" in name else "-my-cluster.tar.gz")
