-- meaning: The invariant elr_within_replicas (docs/invariants.md), or the state is in invariant_violations.
-- action: Detect has not seen this state: run detect again. See docs/invariants.md for what a violation means.
-- kind: consistency; severity: error; scope: topic
-- key: topic_id, partition, offset, leader, replicas, isr, elr
from partition_history h
where not coalesce(removed, false)
    and list_filter(elr, lambda b: not list_contains(coalesce(replicas, []), b)) <> []
    and not exists (
        from invariant_violations v
        where invariant = 'elr_within_replicas' and v.topic_id = h.topic_id and v.partition = h.partition
            and h.offset >= v.start_offset and h.offset < coalesce(v.end_offset, 9223372036854775807)
    )
