-- meaning: The capture of a file has its row in captures.
-- action: Ingest the captures of the cluster into a new lake.
-- kind: completeness; severity: error; scope: cluster
-- key: capture, path
from evidence_files anti join captures using (capture)
