-- By how many ms the controllers' clocks were ahead of the capturer's, as the evidence itself shows: `least_ms`, null if
-- nothing shows that they were. This is a lower bound; nothing bounds a clock's error from above.
--
-- A record is in the log at its timestamp at the earliest. If a copy was read by captured_at_ms + uncertainty_ms and holds
-- a later record, the controller's clock was ahead. Or the round took longer than stated, which has the same effect on its
-- times. In the same way a leader epoch in a file cannot have been opened after the file was read (Kafka's
-- LeaderEpochFileCache: a line is written when a replica leads in an epoch or copies its first record; KIP-631).
with lines as (select * from log_end_offsets where source = 'leader_epoch'),
history as (
    select topic_id, topic, "partition", leader_epoch, timestamp_ms, origin
    from partition_history where topic in (select topic from lines)
),
-- When each leader epoch was opened. A partition's first one may have been opened before the log begins, or in
-- ZooKeeper, unless it is 0.
opened as (
    select topic_id, "partition", leader_epoch, min(timestamp_ms) as opened_ms, bool_and(origin = 'log') as is_logged,
        min(leader_epoch) over (partition by topic_id, "partition") as first_epoch
    from history where leader_epoch is not null group by topic_id, "partition", leader_epoch
),
-- A line that identifies its topic only by name counts if no state is a snapshot's and one topic alone has the name.
names as (
    select topic, min(topic_id) as only_id from history
    where not exists (from history where origin = 'checkpoint')
    group by topic having count(distinct topic_id) = 1
),
ahead as (
    select last_timestamp_ms - captured_at_ms - uncertainty_ms as ahead_ms from evidence_files
    where last_timestamp_ms between 0 and 253402300799999  -- the year 9999
    union all
    select opened_ms - captured_at_ms - coalesce(uncertainty_ms, 0)
    from lines left join names using (topic) join opened on opened.topic_id = coalesce(lines.topic_id, only_id)
        and opened."partition" = lines."partition" and opened.leader_epoch = lines.leader_epoch
    where epoch_start_offset is not null and is_logged and (lines.leader_epoch = 0 or lines.leader_epoch > first_epoch)
)
select max(ahead_ms) as least_ms from ahead where ahead_ms > 0
