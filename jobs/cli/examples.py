"""Examples of every command, for its --help. A test parses each of them."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "collect": (
        "kraft-forensics collect --output incident.tar.gz --node 1=ssh:kafka@broker-1 --node 2=kubectl:kafka/kafka-2",
        "kraft-forensics collect --nodes nodes.toml --output incident --since 2026-11-21T00:00Z",
        "kraft-forensics collect --light --nodes nodes.toml --output rounds/0700.tar.gz",
        "kraft-forensics collect --follow --nodes controllers.toml --output copies",
        "kraft-forensics collect --node 1=disk:/mnt/disk --replica-logs ledger-0,ledger-3 --output old",
    ),
    "check": ("kraft-forensics check incident.tar.gz",),
    "run": (
        "kraft-forensics run incident.tar.xz --lake lake",
        "kraft-forensics run s3://bucket/tuesday --lake lake --fail-on new-possible --log-format json",
    ),
    "ingest": ("kraft-forensics ingest controllers/ brokers.tar.gz --lake lake",),
    "replay": ("kraft-forensics replay --lake lake --start newest-checkpoint",),
    "detect": (
        "kraft-forensics detect --lake lake --fail-on unknown",
        "kraft-forensics detect --lake lake --fail-on new-proven --verdict /var/tmp/verdict.json",
    ),
    "quality": ("kraft-forensics quality --lake lake",),
    "report": (
        "kraft-forensics report --lake lake --output incident.html",
        "kraft-forensics report --lake lake --format postmortem --output -",
    ),
    "verdict": (
        "kraft-forensics verdict --lake lake --format md > ticket.md",
        "kraft-forensics verdict --lake lake --format json | jq .loss",
    ),
    "windows": ("kraft-forensics windows --lake lake --all",),
    "findings": (
        "kraft-forensics findings --lake lake --verdict proven --topic orders",
        "kraft-forensics findings --lake lake --status new --since 2026-11-21T00:40Z",
    ),
    "acknowledge": (
        'kraft-forensics acknowledge ac156266c75d442c --note "INC-4711, restored from the source" --lake lake',
        "kraft-forensics acknowledge --list --lake lake",
        "kraft-forensics acknowledge ac1562 --undo --lake lake",
    ),
    "verify": (
        "kraft-forensics verify lake",
        "kraft-forensics verify lake --capture incident.tar.xz --all",
        "kraft-forensics verify lake --adopt",
        "kraft-forensics verify --lake lake --signed custody.json --allowed-signers minisign.pub",
    ),
    "manifest": (
        "kraft-forensics manifest --lake lake > custody.json",
        "kraft-forensics manifest --lake lake --output custody.json --sign minisign.key",
    ),
    "salvage": (
        "kraft-forensics salvage --from old/node-1 --current old/node-2 --lake lake",
        "kraft-forensics salvage --from /mnt/old-disk --current new/node-2 --lake lake --output saved",
        "kraft-forensics salvage --from old-1.tar.gz --current new-2.tar.gz --partition ledger-0",
        "kraft-forensics salvage --from old/node-1 --bootstrap broker-2:9092 --lake lake",
    ),
    "status": (
        "kraft-forensics status lake",
        "kraft-forensics status lake --runs 20 --captures",
        "kraft-forensics status s3://lakes/east s3://lakes/west --format json",
    ),
    "maintain": ("kraft-forensics maintain lake --retention-days 30",),
    "forget": (
        "kraft-forensics forget tuesday --lake lake",
        "kraft-forensics forget tuesday --capture monday.tar.xz --capture wednesday.tar.xz --yes --lake lake",
        "kraft-forensics forget --older-than 90d --keep-findings --yes --lake lake",
    ),
    "explain": ("kraft-forensics explain ac1562 --lake lake --capture incident.tar.xz",),
    "describe": (
        "kraft-forensics describe --lake lake --topic orders --at-time 2026-11-21T00:39:36.570Z",
        "kraft-forensics describe --lake lake --at-offset 107 --format json",
    ),
    "whatif": (
        "kraft-forensics whatif --lake lake --strategy balanced",
        "kraft-forensics whatif --lake lake --min-isr 2 --no-unclean --topic orders",
    ),
    "ahead": (
        "kraft-forensics ahead --stop 3 --lake lake",
        "kraft-forensics ahead --set min.insync.replicas=1 --topic orders --lake lake",
        "kraft-forensics ahead --restart-all --lake lake --format json",
    ),
    "watch": (
        "kraft-forensics watch /var/lib/kafka/__cluster_metadata-0 --into watch",
        "kraft-forensics watch --node 3000=ssh:admin@controller-1 --node 3001=ssh:admin@controller-2 --into watch",
        "kraft-forensics watch copies/3000 copies/3001 copies/3002 --hook kraft_forensics_dags.webhook:slack",
    ),
    "sql": (
        "kraft-forensics sql \"select * from findings where verdict = 'proven'\" --lake lake",
        "kraft-forensics sql 'select * from loss_by_topic' --lake lake",
    ),
    "inspect": ("kraft-forensics inspect __cluster_metadata-0/00000000000000000000.log | head",),
    "coordinator": (
        "kraft-forensics coordinator my-group --partitions 50",
        'kafka-consumer-groups.sh --bootstrap-server "$BOOTSTRAP" --list | kraft-forensics coordinator --only 12',
    ),
    "conformance": ("kraft-forensics conformance cases.jsonl.gz --profile 4.3",),
    "setup": (
        "kraft-forensics setup",
        "kraft-forensics setup --s3 --from /media/jars",
    ),
    "doctor": ("kraft-forensics doctor --lake s3://bucket/lake",),
    "bench": ("kraft-forensics bench __cluster_metadata-0/00000000000000000000.log --runs 3",),
    "drill": (
        "kraft-forensics drill unclean_by_config --release 4.3.1",
        "kraft-forensics drill random --seed 7 --runs 3 --out drills",
        "kraft-forensics drill random --runs 30 --scores scores.jsonl --resume",
    ),
    "config show": ("kraft-forensics config show --format json",),
}


def epilog(name: str) -> str:
    """The examples of a command as the last paragraphs of its --help. A command without one has none."""
    return "\n\n".join(["Examples:", *EXAMPLES[name]]) if name in EXAMPLES else ""
