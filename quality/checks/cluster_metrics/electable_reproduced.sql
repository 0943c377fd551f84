-- meaning: electable_replicas_count is the number of members of ISR and ELR in the state of the same offset.
-- action: Run replay and detect again on a lake of this release; if it is still broken, report it with the capture.
-- kind: reconciliation; severity: error; scope: topic
-- key: metric, topic_id, partition, offset, value
select m.*
from cluster_metrics m join partition_history h
    on m.topic_id = h.topic_id and m.partition = h.partition and m.offset = h.offset
where metric = 'electable_replicas_count' and not coalesce(removed, false)
    and value <> coalesce(len(isr), 0) + coalesce(len(elr), 0)
