-- meaning: The newest reading of each broker and source is at most quality.reading_age_ms older than the log's end.
-- action: The source stopped: read it again, or leave it out of what is captured.
-- kind: coverage; severity: warn; scope: cluster
-- key: broker_id, source, newest_ms
select broker_id, source, max(captured_at_ms) as newest_ms
from log_end_offsets
where captured_at_ms is not null
group by broker_id, source
having newest_ms < (select greatest(max(max_timestamp_ms), 0) from log_batches)::hugeint - $reading_age_ms
