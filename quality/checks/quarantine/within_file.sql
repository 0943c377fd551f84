-- meaning: The quarantined bytes of a file end where it does, or before, unless it is compressed.
-- action: Ingest the capture into a new lake. If it happens again, report it with the capture.
-- kind: reconciliation; severity: error; scope: cluster
-- key: path, position, reason
from quarantine q join evidence_files f using (capture, path, sha256)
where coalesce(q.position, 0)::hugeint + coalesce(length_bytes, 0) > size_bytes
    and not (path like '%.gz' or path like '%.zst')
