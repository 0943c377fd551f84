-- The longest stretches with one safe copy.
select finding_id, topic_id, topic, partition, reason
from findings where kind = 'last_replica_standing'
order by lasted_ms desc nulls last, topic, topic_id, partition, start_offset, finding_id limit $most
