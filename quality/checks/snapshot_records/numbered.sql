-- meaning: The records of a snapshot are numbered from 0, without a gap, unless bytes of its file are in quarantine.
-- action: Records of the snapshot are missing: ingest the capture into a new lake. If it happens again, report it
--   with the capture.
-- kind: completeness; severity: error; scope: cluster
-- key: path, offset
select path, s.offset
from snapshot_records s anti join quarantine using (sha256)
qualify s.offset is distinct from
    coalesce(lag(s.offset) over (partition by path, sha256 order by s.offset) + 1::hugeint, 0)
