-- meaning: A row that names a file names a manifest of that capture.
-- action: Ingest the capture into a new lake. If it happens again, report it with the capture.
-- kind: validity; severity: error; scope: cluster
-- key: capture, path
from captures join evidence_files using (capture, path, sha256)
where kind is distinct from 'manifest'
