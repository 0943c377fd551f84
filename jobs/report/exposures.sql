-- Exposures by kind, and if $by_topic by topic: leaderless first, then the longest in total. Sums have 128 bits: values
-- from damaged files may overflow 64.
select kind, if($by_topic, topic, null) as topic, count(*) as findings, count(distinct partition) as partitions,
    count(*) filter (end_offset is null) as unended, max(lasted_ms) as longest_ms,
    sum(greatest(coalesce(lasted_ms, 0), 0)) as lasted_ms, min(start_timestamp_ms) as first_ms
from given where list_contains($kinds, kind)
group by all order by kind desc, lasted_ms desc, topic limit $most
