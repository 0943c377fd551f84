-- meaning: The candidates are replicas of the state of the same offset.
-- action: Run replay and detect again on a lake of this release; if it is still broken, report it with the capture.
-- kind: consistency; severity: error; scope: topic
-- key: topic_id, partition, offset, candidates
select e.*
from elections e join partition_history h
    on e.topic_id = h.topic_id and e.partition = h.partition and e.offset = h.offset
where list_filter(candidates, lambda b: not list_contains(coalesce(replicas, []), b)) <> []
