-- meaning: The files that a finding's evidence names are in evidence_files.
-- action: Evidence was removed: run detect again, or ingest the capture again.
-- kind: validity; severity: error; scope: cluster
-- key: finding_id, role, path
from (select finding_id, unnest(evidence, recursive := true) from findings)
    anti join evidence_files using (capture, path, sha256)
where sha256 is not null
