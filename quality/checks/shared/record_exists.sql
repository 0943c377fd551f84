-- meaning: The record at a state's offset is in metadata_records, and no later epoch replaced it.
-- action: Run replay and detect again on a lake of this release; if it is still broken, report it with the capture.
-- tables: partition_history, feature_history, config_history, broker_history, quorum_history, cluster_metrics
-- kind: validity; severity: error; scope: row
-- key: {key}
from {table} h asof left join (from record_offsets where not uncommitted) r on h.offset >= r.first
where origin = 'log' and (r.last is null or h.offset > r.last)
