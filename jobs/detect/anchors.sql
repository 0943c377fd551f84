-- Lines of nodes' own logs, and the records of the metadata log that they are about: a row for each pair. A broker logs a
-- partition's state after the record that made it, whenever that was; others before it asks the controller for the record
-- (is_upper is false). Partition epochs, broker epochs and incarnation ids say which record is meant: no clock is compared
-- to find it. Only rows whose origin is `log` say when a record was written.
with names as (  -- that only one topic ever had
    select topic, min(topic_id) as only_id from partition_history
    group by topic having count(distinct topic_id) = 1 and count(topic_id) = count(*)
),
lines as (
    select kind, node_id, capture, path, position, logged_at_ms, coalesce(topic_id, only_id) as topic_id, "partition",
        partition_epoch, leader_epoch, isr, broker_epoch, incarnation_id
    from broker_log_events left join names using (topic) where node_id is not null and logged_at_ms is not null
),
-- turn: how many lines of the node showed a state of the partition before this line.
of_states as (
    select *, count(*) filter (kind <> 'isr_shrinking') over (
        partition by node_id, topic_id, "partition" order by capture, path, position
        rows between unbounded preceding and 1 preceding
    ) as turn
    from lines where kind in ('leader_started', 'follower_started', 'leader_unchanged', 'follower_unchanged',
        'isr_updated', 'isr_shrinking')
),
-- The first `Shrinking ISR` of a leader since it knew the partition's state.
asked as (
    select * from of_states where kind = 'isr_shrinking'
    qualify row_number() over (
        partition by node_id, topic_id, "partition", turn order by capture, path, position
    ) = 1
),
-- A partition's first state may have been ZooKeeper's, from before its record, which then names no directories
-- (ZkTopicMigrationClient, 3.9.1; PartitionRegistration.defaultToMigrating).
states as (
    select topic_id, "partition", partition_epoch, leader_epoch, timestamp_ms as record_ms, isr
    from partition_history where timestamp_ms is not null
    qualify origin = 'log' and (
        row_number() over (partition by topic_id, "partition" order by "offset") > 1
        or coalesce(list_distinct(directories) <> ['AAAAAAAAAAAAAAAAAAAAAA'], true)
    )
),
-- epoch: of the session that the node's process had registered, by the last such line of the file; -1: none yet.
of_sessions as (
    select *, last_value(
        case kind when 'broker_starting' then -1 when 'broker_registered' then coalesce(broker_epoch, -1) end ignore nulls
    ) over (
        partition by node_id, capture, path order by position rows between unbounded preceding and current row
    ) as epoch
    from lines where kind in ('broker_starting', 'broker_registered', 'controlled_shutdown_started')
),
-- is_begun: the log has the session's registration; of one that a snapshot shows first it has not.
sessions as (
    select broker_id, broker_epoch, incarnation_id, timestamp_ms, in_controlled_shutdown, first_value(origin) over (
        partition by broker_id, broker_epoch order by timestamp_ms, "offset"
    ) = 'log' as is_begun
    from broker_history where incarnation_id is not null and timestamp_ms is not null
    qualify origin = 'log'
)
select node_id, record_ms, logged_at_ms, true as is_upper
from of_states join states using (topic_id, "partition", partition_epoch)
where kind <> 'isr_shrinking' and (of_states.leader_epoch is null or of_states.leader_epoch = states.leader_epoch)
union all
-- Of an ISR that a record then has.
select node_id, record_ms, asked.logged_at_ms, false
from of_states join asked using (node_id, topic_id, "partition", turn)
    join states on states.topic_id = of_states.topic_id and states."partition" = of_states."partition"
    and states.partition_epoch = of_states.partition_epoch
where of_states.kind = 'isr_updated'
    and asked.capture is not distinct from of_states.capture and asked.path is not distinct from of_states.path
    and list_sort(asked.isr) = list_sort(coalesce(of_states.isr, []))
    and list_sort(list_distinct(asked.isr)) = list_sort(list_distinct(coalesce(states.isr, [])))
union all
-- A broker is starting before its registration is a record, and is registered after it.
select node_id, min(timestamp_ms), logged_at_ms, false
from of_sessions join sessions using (incarnation_id) where kind = 'broker_starting' and is_begun
group by node_id, capture, path, position, logged_at_ms
union all
select node_id, min(timestamp_ms), logged_at_ms, true
from of_sessions join sessions on sessions.broker_id = node_id and sessions.broker_epoch = epoch
where kind = 'broker_registered' and is_begun group by node_id, capture, path, position, logged_at_ms
union all
-- It begins a controlled shutdown before that is a record.
select node_id, min(timestamp_ms), logged_at_ms, false
from of_sessions join sessions on sessions.broker_id = node_id and sessions.broker_epoch = epoch
where kind = 'controlled_shutdown_started' and in_controlled_shutdown
group by node_id, capture, path, position, logged_at_ms
