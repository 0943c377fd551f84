-- The replayed states before the offsets at which snapshots end, compared with the snapshots' own: compared, how many
-- there are on both sides together; mismatches: rows {snapshot_end_offset, topic_id, partition, what} of those that
-- differ, or are missing on one side. Each node has its own copy of a snapshot. ISR and replicas are lists, the ELR is a
-- set; without the feature (not has_elr), writers omit it from snapshots.
with ends as (select unnest($ends::bigint[]) as snapshot_end_offset, unnest($has_elr::boolean[]) as has_elr),
expected as (
    select snapshot_end_offset, has_elr, unnest(partition_change) from snapshot join ends using (snapshot_end_offset)
    qualify row_number() over (
        partition by snapshot_end_offset, partition_change.topic_id, partition_change."partition"
        order by snapshot_epoch, "offset"
    ) = 1
),
replayed as (
    select history.*, snapshot_end_offset
    from history join ends on "offset" < snapshot_end_offset and coalesce(end_offset >= snapshot_end_offset, true)
    where not removed
),
compared as (
    select coalesce(s.snapshot_end_offset, r.snapshot_end_offset) as snapshot_end_offset,
        coalesce(s.topic_id, r.topic_id) as topic_id, coalesce(s."partition", r."partition") as "partition",
        case
            when r.topic_id is null then 'missing in the replay'
            when s.topic_id is null then 'missing in the snapshot'
            else concat_ws(', ',
                case when s.replicas is distinct from r.replicas then 'replicas' end,
                case when s.isr is distinct from r.isr then 'isr' end,
                case when s.removing_replicas is distinct from r.removing_replicas then 'removing_replicas' end,
                case when s.adding_replicas is distinct from r.adding_replicas then 'adding_replicas' end,
                case when s.directories is distinct from r.directories then 'directories' end,
                case when s.leader is distinct from r.leader then 'leader' end,
                case when s.leader_epoch is distinct from r.leader_epoch then 'leader_epoch' end,
                case when s.partition_epoch is distinct from r.partition_epoch then 'partition_epoch' end,
                case when r.leader_recovery_state is distinct from
                    if(coalesce(s.leader_recovery_state, 0) = 1, 'RECOVERING', 'RECOVERED') then 'leader_recovery_state' end,
                case when has_elr and list_sort(s.elr) is distinct from list_sort(r.elr) then 'elr' end,
                case when has_elr and list_sort(s.last_known_elr) is distinct from list_sort(r.last_known_elr)
                    then 'last_known_elr' end)
        end as what
    from expected s full join replayed r using (snapshot_end_offset, topic_id, "partition")
)
select count(*) as compared, coalesce(
    list(compared order by snapshot_end_offset, topic_id, "partition") filter (what <> ''), []) as mismatches
from compared
