-- meaning: An election's leader and leader epoch are those of the state of the same offset.
-- action: Run replay and detect again on a lake of this release; if it is still broken, report it with the capture.
-- kind: agreement; severity: error; scope: topic
-- key: topic_id, partition, offset, leader, leader_epoch
from elections e anti join partition_history h
    on e.topic_id = h.topic_id and e.partition = h.partition and e.offset = h.offset
    and e.leader is not distinct from h.leader and e.leader_epoch is not distinct from h.leader_epoch
