-- meaning: A record has partition_change if it is a PARTITION_RECORD or PARTITION_CHANGE_RECORD, else payload.
-- action: Ingest the capture into a new lake. If it happens again, report it with the capture.
-- tables: metadata_records, snapshot_records
-- kind: validity; severity: error; scope: row
-- key: offset, epoch, type
from {table}
where (partition_change.partition is not null)
    <> coalesce(type in ('PARTITION_RECORD', 'PARTITION_CHANGE_RECORD'), false)
  or (partition_change.partition is null and payload is null)
