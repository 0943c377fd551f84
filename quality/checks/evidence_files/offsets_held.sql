-- meaning: log_batches has every metadata offset of a segment without quarantined bytes and offset_gap, unless the log
--   begins with a snapshot's end, and they are before it (`forget --older-than`).
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
), log_begin as (
    select min(base_offset) as first from log_batches
    having min(base_offset) in (select snapshot_end_offset from snapshot_records)
), segments as (
    select * replace (greatest(base_offset, (select first from log_begin)) as base_offset) from evidence_files
)
from segments f asof left join held h on f.base_offset >= h.first
where kind = 'metadata_segment' and f.base_offset is not null and quarantined_bytes = 0
    and end_offset > coalesce(h.until, f.base_offset)
    and not exists (from log_faults where rule = 'offset_gap' and start_offset > f.base_offset and start_offset < end_offset)
