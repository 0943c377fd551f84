-- meaning: The number of files, their length and the times of a capture are those that evidence_files gives.
-- action: Ingest the capture into a new lake. If it happens again, report it with the capture.
-- kind: reconciliation; severity: error; scope: cluster
-- key: capture
with counted as (
    select capture, count(*) as files, sum(size_bytes) as size_bytes,
        min(captured_at_ms) as first_captured_ms, max(captured_at_ms) as last_captured_ms,
        max(last_timestamp_ms) as last_timestamp_ms
    from evidence_files
    group by capture
)
select capture
from captures c left join counted f using (capture)
where c.files is distinct from f.files
    or c.size_bytes is distinct from f.size_bytes
    or c.first_captured_ms is distinct from f.first_captured_ms
    or c.last_captured_ms is distinct from f.last_captured_ms
    or c.last_timestamp_ms is distinct from f.last_timestamp_ms
