-- meaning: log_batches has every metadata offset of a segment, unless bytes of it are in quarantine.
-- action: Records of the file are missing from the lake: ingest the capture into a new lake. If it happens again,
--   report it with the capture.
-- kind: reconciliation; severity: error; scope: cluster
-- key: capture, path
with batches as (
    select base_offset, last_offset::hugeint + 1 as until,
        max(last_offset) over (order by base_offset rows between unbounded preceding and 1 preceding) as reached
    from log_batches
), stretches as (
    select base_offset, until, count(case when base_offset > reached + 1::hugeint then 1 end) over (order by base_offset) as stretch
    from batches
), held as (
    select min(base_offset) as first, max(until) as until from stretches group by stretch
)
from evidence_files f asof left join held h on f.base_offset >= h.first
where kind = 'metadata_segment' and f.base_offset is not null and quarantined_bytes = 0
    and end_offset > coalesce(h.until, f.base_offset)
