-- How long each partition was exposed: under min ISR, with one replica, leaderless. One row a partition.
-- Counted is the time from the first captured state to the partition's removal or the log's end. The three times overlap.
--
-- cluster_id: Kafka cluster id
-- topic: topic name at that time
-- partition: partition
-- topic_id: topic id: the identity of the topic
-- first_at: time of the first captured state
-- first_ms: first_at in ms since the Unix epoch
-- observed_ms: how long the partition was observed
-- under_min_isr_ms: how long it had fewer in-sync replicas than its min ISR
-- one_replica_ms: how long a single replica of several was in sync
-- leaderless_ms: how long nobody led
-- longest_under_min_isr_ms: the longest stretch under min ISR; 0 if there was none
-- under_min_isr_stretches: how often it went under min ISR
-- leader_epochs: how many leader epochs began
-- is_under_min_isr_now: whether it is under min ISR at the log's end; false for a removed partition
with marked as (
  select
    s.*,
    case
      when s.is_under_min_isr and not coalesce(lag(s.is_under_min_isr) over (
        partition by s.cluster_id, s.topic_id, s.partition order by s.metadata_offset), false) then 1
      else 0
    end as begins
  from partition_states s
),
numbered as (
  select
    m.*,
    sum(m.begins) over (
      partition by m.cluster_id, m.topic_id, m.partition order by m.metadata_offset
      rows between unbounded preceding and current row) as stretch
  from marked m
),
stretches as (
  select
    n.cluster_id, n.topic_id, n.partition, n.stretch,
    max_by(n.topic, n.metadata_offset) as topic,
    min(n.valid_from_ms) as first_ms,
    max(n.metadata_offset) as last_offset,
    sum(n.lasted_ms) as observed_ms,
    sum(case when n.is_under_min_isr then n.lasted_ms else 0 end) as under_min_isr_ms,
    sum(case when n.has_one_replica then n.lasted_ms else 0 end) as one_replica_ms,
    sum(case when n.is_leaderless then n.lasted_ms else 0 end) as leaderless_ms,
    sum(n.begins) as begins,
    min(n.leader_epoch) as first_epoch,
    max(n.leader_epoch) as last_epoch,
    count(case when n.is_under_min_isr and n.is_current then 1 end) as under_now
  from numbered n
  group by n.cluster_id, n.topic_id, n.partition, n.stretch
)
select
  t.cluster_id, max_by(t.topic, t.last_offset) as topic, t.partition, t.topic_id,
  min(utc(t.first_ms)) as first_at,
  min(t.first_ms) as first_ms,
  cast(sum(t.observed_ms) as bigint) as observed_ms,
  cast(sum(t.under_min_isr_ms) as bigint) as under_min_isr_ms,
  cast(sum(t.one_replica_ms) as bigint) as one_replica_ms,
  cast(sum(t.leaderless_ms) as bigint) as leaderless_ms,
  cast(max(t.under_min_isr_ms) as bigint) as longest_under_min_isr_ms,
  cast(sum(t.begins) as int) as under_min_isr_stretches,
  cast(max(t.last_epoch) - min(t.first_epoch) + 1 as int) as leader_epochs,
  sum(t.under_now) > 0 as is_under_min_isr_now
from stretches t
group by t.cluster_id, t.topic_id, t.partition
