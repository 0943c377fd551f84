-- meaning: The topic id of a window is in partition_history.
-- action: Run detect again on a lake of this release; if it is still broken, report it with the capture.
-- kind: validity; severity: error; scope: topic
-- key: finding_id, topic_id
from findings anti join partition_history using (topic_id)
where kind in ('hwm_regression', 'leaderless', 'last_replica_standing', 'log_truncation')
