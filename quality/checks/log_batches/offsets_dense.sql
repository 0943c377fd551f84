-- meaning: A batch has one record for each of its offsets: record_count = last_offset - base_offset + 1.
-- action: Ingest the capture into a new lake. If it happens again, report it with the capture.
-- kind: completeness; severity: error; scope: row
-- key: epoch, base_offset, crc
from log_batches where last_offset::hugeint - base_offset + 1 is distinct from record_count
