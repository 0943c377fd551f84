-- meaning: The invariant elr_empty_at_min_isr (docs/invariants.md), or the state is in invariant_violations.
-- action: Detect has not seen this state: run detect again. See docs/invariants.md for what a violation means.
-- kind: consistency; severity: error; scope: topic
-- key: topic_id, partition, offset, leader, replicas, isr, elr
from partition_history h
where not coalesce(removed, false)
    and len(elr) > 0 and coalesce(len(isr), 0) >= coalesce(min_isr, 0)
    and min_isr_source is distinct from 'assumed_default'
    and not exists (
        from invariant_violations v
        where invariant = 'elr_empty_at_min_isr' and v.topic_id = h.topic_id and v.partition = h.partition
            and h.offset >= v.start_offset and h.offset < coalesce(v.end_offset, 9223372036854775807)
    )
