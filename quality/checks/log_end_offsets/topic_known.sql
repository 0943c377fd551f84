-- meaning: The topic of a reading is a topic of the metadata log.
-- action: The reading is of a topic that the captured log does not show: capture older segments or a snapshot.
-- kind: validity; severity: warn; scope: row
-- key: broker_id, source, captured_at_ms, topic, partition
from log_end_offsets anti join topic_names using (topic)
where topic <> '__cluster_metadata' and exists (from topic_names)
