-- The topics that have $names at the log's end, and their numbers of partitions.
select topic, topic_id, count(*) as partitions
from partition_history where end_offset is null and not removed and list_contains($names, topic) group by topic, topic_id
