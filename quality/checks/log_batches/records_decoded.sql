-- meaning: metadata_records has record_count rows for every batch, or an unreadable_record is found or quarantined.
-- action: Records are missing, or there twice: ingest the capture again; an interrupted ingest is completed.
-- kind: reconciliation; severity: error; scope: cluster
-- key: epoch, base_offset, crc
with found as (
    select epoch, batch_base_offset, batch_crc, count(*) as records from metadata_records group by all
), differing as (
    select b.epoch, b.base_offset, b.crc, b.last_offset, record_count, coalesce(records, 0) as found
    from log_batches b left join found f
        on b.base_offset = f.batch_base_offset
        and b.epoch is not distinct from f.epoch
        and b.crc is not distinct from f.batch_crc
    where coalesce(records, 0) <> record_count
)
select *, 'record_count=' || record_count || ', rows=' || found as why
from differing d
where found > record_count
    or found + (select count(*) from quarantine q where q.offset between d.base_offset and d.last_offset) < record_count
