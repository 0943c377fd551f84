-- meaning: Every partition record of the surviving log has its state, unless its transaction was aborted, its topic
--   or partition is not known, or it is in a hole of the history.
-- action: States are missing: run replay and detect again on a lake of this release; if it is still broken, report
--   it with the capture.
-- kind: completeness; severity: error; scope: topic
-- key: offset
with changes as (
    select r.offset, partition_change.topic_id as topic_id, partition_change.partition as number
    from metadata_records r
    where partition_change.partition is not null and r.offset is not null
        and commit_state is distinct from 'uncommitted'
), missing as materialized (
    from changes c anti join partition_history h
        on c.topic_id = h.topic_id and c.number = h.partition and c.offset = h.offset
)
select m.offset, 'topic_id=' || topic_id || ', partition=' || number as why
from missing m
where not exists (from holes where m.offset between first and last)
    and not exists (from hidden_offsets where m.offset between first and last)
    and not exists (
        from log_faults f
        where rule in ('unknown_topic', 'unknown_partition', 'open_transaction') and f.start_offset = m.offset
    )
