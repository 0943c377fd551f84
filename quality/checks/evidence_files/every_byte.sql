-- meaning: parsed_bytes + quarantined_bytes + trailing_bytes = size_bytes.
-- action: Ingest the capture into a new lake. If it happens again, report it with the capture.
-- kind: reconciliation; severity: error; scope: row
-- key: capture, path
from evidence_files where parsed_bytes::hugeint + quarantined_bytes + trailing_bytes is distinct from size_bytes
