-- meaning: The capture of a file has its row in captures.
-- action: `kraft-forensics upgrade` adds the row.
-- kind: completeness; severity: error; scope: cluster
-- key: capture, path
from evidence_files anti join captures using (capture)
