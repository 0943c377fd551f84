-- meaning: The batch of a record is in log_batches, with the same commit_state, and its offset is in the batch.
-- action: Ingest the capture again; an interrupted ingest is completed.
-- kind: validity; severity: error; scope: row
-- key: offset, epoch, batch_crc
select r.*
from metadata_records r left join log_batches b
    on r.batch_base_offset is not distinct from b.base_offset
    and r.epoch is not distinct from b.epoch
    and r.batch_crc is not distinct from b.crc
    and r.commit_state is not distinct from b.commit_state
where b.record_count is null or r.offset not between r.batch_base_offset and b.last_offset
