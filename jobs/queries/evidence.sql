-- Files by kind, the newest time of capture, and of the last record in the metadata log.
select kind, count(*) as files, max(captured_at_ms) as newest_ms, max(last_timestamp_ms) as until_ms
from evidence_files group by kind order by kind
