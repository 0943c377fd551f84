-- Offsets inside captured batches of the log that have no record: "offset", epoch.
-- Control records carry no state, and kafka-dump-log may print none. But one without a key is none (RecordsIterator.
-- decodeControlRecord, 4.3.1): another bit of the batch's attributes made it look so, and it may have carried state.
with disguised as (
    select base_offset from log_batches join quarantine on quarantine."offset" between base_offset and last_offset
    where is_control and reason = 'not_kraft'
),
had as (
    select distinct epoch, batch_base_offset as base_offset, batch_crc as crc, "offset" from metadata_records
    where "offset" is not null
),
counted as (select epoch, base_offset, crc, count(*) as records from had group by all),
short as (
    select epoch, base_offset, crc, last_offset from log_batches left join counted using (epoch, base_offset, crc)
    where coalesce(records, 0) is distinct from record_count
        and (not coalesce(is_control, false) or base_offset in (from disguised))
),
present as (select epoch, "offset" from had semi join short using (epoch, base_offset, crc)),
wanted as (select epoch, base_offset, unnest(range(base_offset, last_offset + 1)) as "offset" from short)
select "offset", epoch from wanted anti join present using (epoch, "offset") order by epoch, base_offset, "offset"
