-- Every election of a leader from outside the ISR and the ELR, with the verdict on what it cost.
--
-- cluster_id: Kafka cluster id
-- topic: topic name at that time
-- partition: partition
-- topic_id: topic id: the identity of the topic
-- elected_at: time of the election
-- elected_ms: elected_at in ms since the Unix epoch
-- metadata_offset: metadata offset of the election
-- leader_epoch: leader epoch that the change started
-- previous_leader: the last leader before (leaderless states are skipped)
-- leader: who was elected
-- cause: who allowed it: last_known_leader, unclean_by_config, unclean_by_administrator, unclean (which is unknown)
-- actor: what made the controller act, e.g. fence, unfence
-- isr_before: ISR before the change
-- elr_before: ELR before the change
-- verdict: proven, possible, excluded or undetermined; null if no window judges it
-- loss_min: at least this many offsets below the high watermark were lost
-- loss_max: at most this many offsets; null = no upper bound is known
-- finding_id: id of the window's finding
select
  c.cluster_id, c.topic, c.partition, c.topic_id,
  c.changed_at as elected_at, c.changed_ms as elected_ms,
  c.metadata_offset, c.leader_epoch, c.previous_leader, c.leader, c.cause, c.actor, c.isr_before, c.elr_before,
  w.verdict, w.loss_min, w.loss_max, w.finding_id
from leader_changes c
left join windows w
  on w.cluster_id = c.cluster_id and w.topic_id = c.topic_id and w.partition = c.partition
  and w.elected_metadata_offset = c.metadata_offset
where c.is_unclean
