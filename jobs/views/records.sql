-- The metadata log's records with their JSON text, which `metadata_records` lacks where typed columns hold it.
--
-- cluster_id: Kafka cluster id
-- metadata_offset: metadata offset of that record
-- controller_epoch: controller epoch that wrote it
-- written_at: time of the record
-- written_ms: written_at in ms since the Unix epoch
-- type: record type
-- commit_state: committed, uncommitted or unknown
-- payload: the record in Kafka's JSON form
-- capture: capture that the row was first read from
-- path: file inside the capture
-- position: byte position in that file
with typed as (
  select r.*, r.partition_change as change from metadata_records r
)
select
  t.cluster_id, t.offset as metadata_offset, t.epoch as controller_epoch,
  utc(t.timestamp_ms) as written_at,
  t.timestamp_ms as written_ms,
  t.type, t.commit_state,
  coalesce(t.payload, concat_ws('',
    '{"partitionId":', t.change.partition, ',"topicId":"', t.change.topic_id, '"',
    case t.type
      when 'PARTITION_RECORD' then concat_ws('',
        ',"replicas":' || to_json(t.change.replicas), ',"isr":' || to_json(t.change.isr),
        ',"removingReplicas":' || to_json(t.change.removing_replicas),
        ',"addingReplicas":' || to_json(t.change.adding_replicas),
        ',"leader":' || t.change.leader, ',"leaderEpoch":' || t.change.leader_epoch,
        ',"partitionEpoch":' || t.change.partition_epoch,
        case when t.version > 0 then ',"directories":' || to_json(t.change.directories) end,
        ',"leaderRecoveryState":' || nullif(t.change.leader_recovery_state, 0),
        ',"eligibleLeaderReplicas":' || nullif(to_json(t.change.elr), '[]'),
        ',"lastKnownElr":' || nullif(to_json(t.change.last_known_elr), '[]'))
      else concat_ws('',
        ',"isr":' || to_json(t.change.isr), ',"leader":' || t.change.leader,
        ',"replicas":' || to_json(t.change.replicas),
        ',"removingReplicas":' || to_json(t.change.removing_replicas),
        ',"addingReplicas":' || to_json(t.change.adding_replicas),
        ',"leaderRecoveryState":' || t.change.leader_recovery_state,
        ',"eligibleLeaderReplicas":' || to_json(t.change.elr), ',"lastKnownElr":' || to_json(t.change.last_known_elr),
        ',"directories":' || to_json(t.change.directories))
    end, '}')) as payload,
  t.capture, t.path, t.position
from typed t
