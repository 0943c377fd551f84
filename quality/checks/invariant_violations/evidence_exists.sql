-- meaning: The records that show a violation are in metadata_records, or are before the log.
-- action: Run replay and detect again on a lake of this release; if it is still broken, report it with the capture.
-- kind: validity; severity: error; scope: row
-- key: invariant, topic_id, partition, start_offset
select distinct invariant, topic_id, partition, start_offset
from (select invariant, topic_id, partition, start_offset, unnest(evidence_offsets) as record from invariant_violations)
where not exists (from record_offsets where record between first and last)
    and not exists (from quorum_history h where origin = 'checkpoint' and h.offset = record)
