-- meaning: The epoch of committed batches does not fall as offsets rise.
-- action: Two clusters were ingested under one id, or files were altered: compare the SHA-256 of both batches'
--   files.
-- kind: consistency; severity: error; scope: cluster
-- key: epoch, base_offset
from log_batches where commit_state = 'committed' qualify epoch < lag(epoch) over (order by base_offset, epoch)
