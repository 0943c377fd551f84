-- Every judged window: a partition's high watermark was at risk, and somebody was elected. Findings of kind hwm_regression.
-- A window opens when the partition becomes leaderless or gets an unclean leader, and closes when enough replicas are in
-- sync again. A window can have several elections, and then several rows.
--
-- cluster_id: Kafka cluster id
-- finding_id: id of the finding: `kraft-forensics explain` takes it
-- topic: topic name at that time
-- partition: partition
-- topic_id: topic id: the identity of the topic
-- verdict: proven, possible, excluded or undetermined
-- severity: critical, high, medium, low or info
-- loss_min: at least this many offsets below the high watermark were lost
-- loss_max: at most this many offsets; null = no upper bound is known
-- first_lost_offset: first offset of the partition that was lost
-- opened_at: when the window opened
-- elected_at: when the judged leader was elected
-- closed_at: when enough replicas were in sync again; null = never in this log
-- opened_ms: opened_at in ms since the Unix epoch
-- elected_ms: elected_at in ms since the Unix epoch
-- closed_ms: closed_at in ms since the Unix epoch
-- is_open: whether no captured record closes it
-- lasted_ms: from opened_at to closed_at; null = never in this log
-- opened_metadata_offset: metadata offset of the record that opened the window
-- elected_metadata_offset: metadata offset of the election
-- closed_metadata_offset: metadata offset of the record that closed the window; null = never in this log
-- previous_leader: who led before the election
-- leader: who was elected
-- cause: why this leader, e.g. unclean_by_config
-- would_be_leader: the leader that `policy` would have picked, where it differs: a prediction
-- policy: the policy that would pick would_be_leader
-- unacked_min: at least this many offsets are gone whether or not all replicas acknowledged them
-- unacked_max: at most this many; null = no upper bound is known
-- likely: lost, kept or unknown: which way an open window leans; no verdict. null = decided
-- likely_rule: rule that `likely` comes from
-- likely_right: in how many windows whose truth is known that rule was right
-- likely_of: of how many
-- explanation: the reason in prose
select
  f.cluster_id, f.finding_id, f.topic, f.partition, f.topic_id,
  f.verdict, f.severity, f.loss_min, f.loss_max, f.first_lost_offset,
  utc(f.start_timestamp_ms) as opened_at,
  utc(e.timestamp_ms) as elected_at,
  utc(f.end_timestamp_ms) as closed_at,
  f.start_timestamp_ms as opened_ms,
  e.timestamp_ms as elected_ms,
  f.end_timestamp_ms as closed_ms,
  f.end_offset is null as is_open,
  f.end_timestamp_ms - f.start_timestamp_ms as lasted_ms,
  f.start_offset as opened_metadata_offset,
  f.election_offset as elected_metadata_offset,
  f.end_offset as closed_metadata_offset,
  nullif(e.previous_leader, -1) as previous_leader,
  nullif(f.recorded_leader, -1) as leader,
  e.cause, f.would_be_leader, f.policy, f.unacked_min, f.unacked_max,
  f.likely, f.likely_rule, f.likely_right, f.likely_of, f.explanation
from findings f
left join elections e
  on e.cluster_id = f.cluster_id and e.topic_id = f.topic_id and e.partition = f.partition
  and e.offset = f.election_offset
where f.kind = 'hwm_regression'
