-- The states within $most of what is sought, the last state at or before an offset: place is the index of a state in the
-- history of its partition, total the length of that.
with history as (
    select topic_id, partition, "offset", row_number() over own - 1 as place,
        count(*) over (partition by topic_id, partition) as total
    from partition_history where topic_id in (select topic_id from sought)
    window own as (partition by topic_id, partition order by "offset")
),
middles as (
    select topic_id, partition, greatest(count(*) filter ("offset" <= point) - 1, 0) as middle
    from history join sought using (topic_id, partition) group by topic_id, partition, point
),
near as (
    from history where exists (
        from middles m
        where m.topic_id = history.topic_id and m.partition = history.partition and abs(place - middle) <= $most
    )
)
select topic_id, topic, partition, "offset", timestamp_ms, replicas, isr, elr, last_known_elr, leader, leader_epoch,
    partition_epoch, leader_recovery_state, min_isr, min_isr_source, unclean_leader_election_enable,
    unclean_leader_election_enable_source, removed, place, total
from near join partition_history using (topic_id, partition, "offset")
order by topic_id, partition, "offset"
