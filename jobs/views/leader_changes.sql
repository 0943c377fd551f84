-- Every change of a partition's leader, with why, and who led before.
--
-- cluster_id: Kafka cluster id
-- topic: topic name at that time
-- partition: partition
-- topic_id: topic id: the identity of the topic
-- changed_at: time of the change
-- changed_ms: changed_at in ms since the Unix epoch
-- metadata_offset: metadata offset of the change (`offset` of elections)
-- controller_epoch: controller epoch that wrote it
-- leader_epoch: leader epoch that the change started
-- previous_leader: the last leader before (leaderless states are skipped)
-- leader: leader after the change; null = leaderless
-- is_leaderless: whether the change left the partition without a leader
-- cause: why this leader, e.g. isr, elr, unclean_by_config (docs/tables.md, elections)
-- actor: what made the controller act, e.g. fence, unfence
-- is_unclean: whether the new leader was in neither the ISR nor the ELR
-- isr_before: ISR before the change
-- elr_before: ELR before the change
-- next_change_at: time of the partition's next change of leader
-- next_change_ms: next_change_at in ms since the Unix epoch
-- difference: as_predicted, or how the record differs from Kafka's rules; null if nothing was predicted
with changes as (
  select
    e.*,
    lead(e.timestamp_ms) over (
      partition by e.cluster_id, e.topic_id, e.partition order by e.offset) as next_change_ms
  from elections e
)
select
  c.cluster_id, c.topic, c.partition, c.topic_id,
  utc(c.timestamp_ms) as changed_at,
  c.timestamp_ms as changed_ms,
  c.offset as metadata_offset,
  c.controller_epoch, c.leader_epoch,
  nullif(c.previous_leader, -1) as previous_leader,
  nullif(c.leader, -1) as leader,
  c.leader = -1 as is_leaderless,
  c.cause, c.actor,
  c.leader >= 0 and (
    c.hidden_unclean
    or c.cause in ('last_known_leader', 'unclean', 'unclean_by_config', 'unclean_by_administrator')) as is_unclean,
  c.isr_before, c.elr_before,
  utc(c.next_change_ms) as next_change_at,
  c.next_change_ms,
  c.difference
from changes c
