-- The states that the detail of each finding in `sought` shows: at most $most consecutive ones with the window in the
-- middle, the election always among them; of a window that is too long for that, $context before it. place: index of a
-- state in the history of its partition; total: length of that. shown: false for the state at the window's start, where
-- it is not among these.
with history as materialized (
    select topic_id, topic, partition, "offset", timestamp_ms, replicas, isr, elr, last_known_elr, leader, leader_epoch,
        partition_epoch, leader_recovery_state, min_isr, min_isr_source, unclean_leader_election_enable,
        unclean_leader_election_enable_source, removed, row_number() over own - 1 as place,
        count(*) over (partition by topic_id, partition) as total
    from partition_history where (topic_id, partition) in (select (topic_id, partition) from sought)
    window own as (partition by topic_id, partition order by "offset")
),
-- The place of the state that is valid after the record at an offset, the first one before all.
windows as (
    select finding_id, topic_id, partition, any_value(total) as total,
        greatest(count(*) filter ("offset" <= start_offset) - 1, 0) as first,
        case when any_value(election_offset) is null then first
            else greatest(count(*) filter ("offset" <= election_offset) - 1, 0) end as election,
        case when any_value(end_offset) is null then any_value(total) - 1
            else greatest(count(*) filter ("offset" <= end_offset) - 1, 0) end as last
    from history join sought using (topic_id, partition) group by finding_id, topic_id, partition
),
around as (
    select *, case when last - first < $most then first - ($most - 1 - last + first) // 2 else first - $context end as middle,
        case when election between middle and middle + $most - 1 then middle else election - $most // 2 end as wanted,
        greatest(least(wanted, total - $most), 0) as begin
    from windows
)
select finding_id, history.*, place between begin and begin + $most - 1 as shown
from around join history using (topic_id, partition)
where shown or place = first
order by finding_id, place
