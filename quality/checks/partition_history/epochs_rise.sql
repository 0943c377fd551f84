-- meaning: From one state of a partition to the next, leader epoch and partition epoch do not fall.
-- action: See leader_epoch_never_falls and partition_epoch_by_one in docs/invariants.md.
-- kind: consistency; severity: error; scope: topic
-- key: topic_id, partition, offset, leader_epoch, partition_epoch
from partition_history h
qualify follows and (leader_epoch < lag(leader_epoch) over () or partition_epoch < lag(partition_epoch) over ())
