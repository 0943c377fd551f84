-- The findings of partitions that have no leader at the log's end, of some topics.
select topic_id, partition, finding_id
from findings where kind = 'leaderless' and end_offset is null and topic_id in (select unnest($topics))
