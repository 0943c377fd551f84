-- meaning: The change that differs is a state of partition_history.
-- action: Run replay and detect again on a lake of this release; if it is still broken, report it with the capture.
-- kind: validity; severity: error; scope: topic
-- key: topic_id, partition, offset
from rule_differences d anti join partition_history h
    on d.topic_id = h.topic_id and d.partition = h.partition and d.offset = h.offset
