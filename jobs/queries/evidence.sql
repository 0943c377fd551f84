-- Files by kind, the newest time of capture and its age at $now, and the time of the last record in the metadata log.
select kind, count(*) as files, max(captured_at_ms) as newest_ms, $now - max(captured_at_ms) as age_ms,
    max(last_timestamp_ms) as until_ms
from evidence_files group by kind order by kind
