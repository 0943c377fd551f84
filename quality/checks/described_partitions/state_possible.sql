-- meaning: In a printed state the leader is in the ISR, ISR and ELR are replicas, and no broker is in both.
-- action: Kafka's tool printed a state that cannot be: compare it with the history; see docs/invariants.md.
-- kind: consistency; severity: error; scope: row
-- key: source, captured_at_ms, topic, partition
from described_partitions
where coalesce(leader, -1) <> -1 and not list_contains(coalesce(isr, []), leader)
    or not list_has_all(coalesce(replicas, []), coalesce(isr, []))
    or not list_has_all(coalesce(replicas, []), coalesce(elr, []))
    or list_has_any(isr, elr)
