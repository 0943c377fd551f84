-- meaning: electable_replicas_count is the number of members of ISR and ELR in the state of the same offset.
-- action: Run replay and detect again on a lake of this release; if it is still broken, report it with the capture.
-- kind: reconciliation; severity: error; scope: topic
-- key: metric, topic_id, partition, offset, value
with states as (
    select topic_id, partition, h.offset, coalesce(len(isr), 0) + coalesce(len(elr), 0) as electable
    from partition_history h
    where not coalesce(removed, false)
)
select m.*
from cluster_metrics m join states s
    on m.topic_id = s.topic_id and m.partition = s.partition and m.offset = s.offset
where metric = 'electable_replicas_count' and value <> electable
