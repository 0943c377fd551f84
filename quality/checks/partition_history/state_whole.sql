-- meaning: A state has leader, epochs, replicas, ISR and min ISR, unless the topic was removed.
-- action: Run replay and detect again on a lake of this release; if it is still broken, report it with the capture.
-- kind: completeness; severity: error; scope: row
-- key: topic_id, partition, offset
from partition_history
where not coalesce(removed, false)
    and (leader is null or leader_epoch is null or partition_epoch is null
        or replicas is null or isr is null or min_isr is null)
