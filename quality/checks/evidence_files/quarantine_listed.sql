-- meaning: A file with quarantined_bytes has rows in quarantine.
-- action: Ingest the capture into a new lake. If it happens again, report it with the capture.
-- kind: reconciliation; severity: error; scope: cluster
-- key: capture, path, quarantined_bytes
from evidence_files anti join quarantine using (sha256) where quarantined_bytes > 0
