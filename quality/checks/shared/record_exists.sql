-- meaning: The record at a state's offset is in metadata_records, and no later epoch replaced it.
-- action: Run replay and detect again on a lake of this release; if it is still broken, report it with the capture.
-- tables: partition_history, feature_history, config_history, broker_history, quorum_history, cluster_metrics
-- kind: validity; severity: error; scope: row
-- key: {key}
with known as materialized (
    from record_offsets where not uncommitted
), longest as (
    from known order by last - first desc limit 1
), rest as (
    from {table} h
    where origin = 'log' and not coalesce(h.offset between (select first from longest) and (select last from longest), false)
)
from rest h asof left join known r on h.offset >= r.first
where r.last is null or h.offset > r.last
