-- A partition's state from one record of the metadata log until the next, and how it was exposed meanwhile.
-- The row of a topic's removal is left out: a partition that is gone has no state that is current.
--
-- cluster_id: Kafka cluster id
-- topic_id: topic id: the identity of the topic
-- topic: topic name at that time
-- partition: partition
-- valid_from: time of the record that made this state
-- valid_to: time of the partition's next record; null = still valid at the log's end
-- valid_from_ms: valid_from in ms since the Unix epoch
-- valid_to_ms: valid_to in ms since the Unix epoch
-- is_current: whether it is still valid at the log's end
-- lasted_ms: until valid_to, or until the log's end
-- metadata_offset: metadata offset of the record that made this state
-- next_metadata_offset: metadata offset of the partition's next record
-- controller_epoch: controller epoch that wrote it
-- leader: leader; null = leaderless
-- leader_epoch: leader epoch
-- partition_epoch: partition epoch
-- replicas: assigned replicas, in assignment order
-- isr: in-sync replicas
-- elr: eligible leader replicas
-- last_known_elr: LastKnownElr; in released Kafka it holds the last known leader
-- leader_recovery_state: RECOVERED or RECOVERING
-- min_isr: effective min ISR
-- unclean_leader_election_enable: effective unclean.leader.election.enable
-- isr_size: number of in-sync replicas
-- is_leaderless: whether nobody leads
-- is_under_min_isr: whether there are fewer in-sync replicas than min_isr: producers with acks=all are refused
-- has_one_replica: whether a single replica of several is in sync: acknowledged records may be on it alone
select
  h.cluster_id, h.topic_id, h.topic, h.partition,
  utc(h.timestamp_ms) as valid_from,
  utc(h.end_timestamp_ms) as valid_to,
  h.timestamp_ms as valid_from_ms,
  h.end_timestamp_ms as valid_to_ms,
  h.end_offset is null as is_current,
  greatest(case when h.end_offset is null then l.until_ms else h.end_timestamp_ms end - h.timestamp_ms, 0 * l.until_ms)
    as lasted_ms,
  h.offset as metadata_offset,
  h.end_offset as next_metadata_offset,
  h.controller_epoch,
  nullif(h.leader, -1) as leader,
  h.leader_epoch, h.partition_epoch,
  h.replicas, h.isr, h.elr, h.last_known_elr, h.leader_recovery_state,
  h.min_isr, h.unclean_leader_election_enable,
  cast(array_size(h.isr) as int) as isr_size,
  h.leader = -1 as is_leaderless,
  array_size(h.isr) < h.min_isr as is_under_min_isr,
  array_size(h.isr) = 1 and array_size(h.replicas) > 1 as has_one_replica
from partition_history h
left join captured_log l on l.cluster_id = h.cluster_id
where not h.removed
