-- meaning: A PARTITION_RECORD or PARTITION_CHANGE_RECORD of a known version has partition_change, any other payload.
-- action: Ingest the capture into a new lake. If it happens again, report it with the capture.
-- tables: metadata_records, snapshot_records
-- kind: validity; severity: error; scope: row
-- key: offset, epoch, type
from {table}
where (partition_change.partition is not null)
    <> coalesce(
        type in ('PARTITION_RECORD', 'PARTITION_CHANGE_RECORD') and (payload not like '{"raw":%') is not false, false
    )
  or (partition_change.partition is null and payload is null)
