-- meaning: The partition changes that prove how a session ended are in metadata_records.
-- action: Run replay and detect again on a lake of this release; if it is still broken, report it with the capture.
-- kind: validity; severity: error; scope: row
-- key: broker_id, offset
select distinct broker_id, h.offset
from (select broker_id, b.offset, unnest(restart_evidence) as change from broker_history b) h
where not exists (from record_offsets where change between first and last)
