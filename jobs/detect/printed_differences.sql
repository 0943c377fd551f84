-- Each printed state compared with every replayed one from before the tool had read it: printed, the row; same; within,
-- whether the tool read before the log ended; states, those that were valid then, by offset, empty if one is the same. A
-- printed state that equals none, and was printed while none was valid, has no row.
--
-- Any broker answers the tool, also one that is cut off from the controllers, or waits for a disk, and so does not know
-- what came later (MetadataCache). ISR and ELR are sets. Kafka also prints no leader if the leader has no endpoint on the
-- listener used (KRaftMetadataCache).
with shown as (
    select printed as p, row_number() over () as number, captured_at_ms - $clock_error_ms as first_ms,
        captured_at_ms + coalesce(uncertainty_ms, 0) + $clock_error_ms as last_ms
    from printed
),
-- A state with an end offset but no end time ends in a hole of the log, at an unknown time.
live as (
    select *, if(end_offset is null, $log_end_ms, end_timestamp_ms) as ended_ms from history where not removed
),
pairs as (
    select number, p, last_ms <= $log_end_ms as within, coalesce(ended_ms >= first_ms, false) as valid,
        {
            'offset': "offset", 'topic': topic, 'topic_id': topic_id, 'leader': leader, 'replicas': replicas, 'isr': isr,
            'elr': elr, 'last_known_elr': last_known_elr, 'leader_epoch': leader_epoch, 'capture': capture, 'path': path,
            'sha256': sha256, 'position': position
        } as state,
        (p.leader is not distinct from leader or p.leader = -1) and p.replicas is not distinct from replicas
            and (p.leader_epoch is null or p.leader_epoch = leader_epoch)
            and (p.isr is null or list_sort(p.isr) = list_sort(isr))
            and (p.elr is null or list_sort(p.elr) = list_sort(elr))
            and (p.last_known_elr is null or list_sort(p.last_known_elr) = list_sort(last_known_elr)) as same
    from shown join live on p.topic_id = topic_id and p."partition" = live."partition"
        and timestamp_ms <= last_ms
)
select any_value(p) as printed, coalesce(bool_or(same), false) as same, any_value(within) as within,
    if(coalesce(bool_or(same), false), [], list(state order by state."offset") filter (valid)) as states
from pairs group by number having coalesce(bool_or(same), false) or bool_or(valid) order by number
