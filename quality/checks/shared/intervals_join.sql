-- meaning: A state ends where the next one of the same subject begins, at the same time; only before a snapshot that
--   follows a hole in the log it ends earlier.
-- action: Run replay and detect again on a lake of this release; if it is still broken, report it with the capture.
-- tables: partition_history, feature_history, config_history, broker_history, quorum_history, cluster_metrics
-- kind: consistency; severity: error; scope: topic
-- key: {key}, end_offset
with states as (
    select {key}, end_timestamp_ms, coalesce(end_offset, 9223372036854775807) as until, end_offset,
        lead(follows) over () as goes_on,
        lead(h.offset) over () as next_offset,
        lead(timestamp_ms) over () as next_ms,
        lead(origin) over () as next_origin
    from {table} h
)
from states
where goes_on and not coalesce(until = next_offset and coalesce(end_timestamp_ms = next_ms, true), false)
    and not (until < next_offset and next_origin is distinct from 'log')
