-- The states within $most of what is sought, the last state at or before an offset: place is the index of a state in the
-- history of its partition, total the length of that.
with history as (
    select *, row_number() over own - 1 as place, count(*) over (partition by topic_id, partition) as total
    from states window own as (partition by topic_id, partition order by "offset")
),
middles as (
    select topic_id, partition, greatest(count(*) filter ("offset" <= point) - 1, 0) as middle
    from history join sought using (topic_id, partition) group by topic_id, partition, point
)
from history where exists (
    from middles m
    where m.topic_id = history.topic_id and m.partition = history.partition and abs(place - middle) <= $most
)
