-- Every partition that exists at the end of the captured log, as `kafka-topics --describe` would show it then.
--
-- cluster_id: Kafka cluster id
-- topic: topic name at that time
-- partition: partition
-- topic_id: topic id: the identity of the topic
-- leader: leader; null = leaderless
-- leader_epoch: leader epoch
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
-- since: time of the record that made this state
-- since_ms: since in ms since the Unix epoch
-- metadata_offset: metadata offset of that record
select
  s.cluster_id, s.topic, s.partition, s.topic_id, s.leader, s.leader_epoch,
  s.replicas, s.isr, s.elr, s.last_known_elr, s.leader_recovery_state,
  s.min_isr, s.unclean_leader_election_enable,
  s.isr_size, s.is_leaderless, s.is_under_min_isr, s.has_one_replica,
  s.valid_from as since, s.valid_from_ms as since_ms, s.metadata_offset
from partition_states s
where s.is_current
