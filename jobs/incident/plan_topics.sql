-- The topics at the log's end, their numbers of partitions, and the most replicas of one.
select topic, topic_id, count(*) as partitions, max(len(replicas)) as replicas
from partition_history where end_offset is null and not removed and topic is not null group by topic, topic_id
