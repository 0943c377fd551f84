-- meaning: Leader, epochs, replicas and ISR of a captured snapshot are those of the history at its end, or a
--   snapshot_mismatch is found.
-- action: The history is wrong from some record before the snapshot on: report it with the capture.
-- kind: agreement; severity: error; scope: topic
-- key: snapshot_end_offset
with taken as (
    select snapshot_end_offset, partition_change.topic_id as topic_id, partition_change.partition as partition,
        partition_change.leader as leader, partition_change.leader_epoch as leader_epoch,
        partition_change.partition_epoch as partition_epoch, partition_change.replicas as replicas,
        partition_change.isr as isr
    from snapshot_records s
    where partition_change.partition is not null
        and not exists (
            from log_faults f
            where rule = 'snapshot_mismatch' and snapshot_end_offset in (f.start_offset, f.start_offset + 1::hugeint)
        )
)
select snapshot_end_offset, t.topic_id || ': ' || concat_ws(', ',
    case when t.leader is distinct from h.leader then 'leader' end,
    case when t.leader_epoch is distinct from h.leader_epoch then 'leader_epoch' end,
    case when t.partition_epoch is distinct from h.partition_epoch then 'partition_epoch' end,
    case when t.replicas is distinct from h.replicas then 'replicas' end,
    case when t.isr is distinct from h.isr then 'isr' end
) as why
from taken t join partition_history h
    on t.topic_id = h.topic_id and t.partition = h.partition
    and h.offset < snapshot_end_offset and coalesce(h.end_offset, 9223372036854775807) >= snapshot_end_offset
where not coalesce(removed, false)
    and (t.leader, t.leader_epoch, t.partition_epoch, t.replicas, t.isr)
        is distinct from (h.leader, h.leader_epoch, h.partition_epoch, h.replicas, h.isr)
