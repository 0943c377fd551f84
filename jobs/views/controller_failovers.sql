-- Every change of the active controller after the first one in the log.
--
-- cluster_id: Kafka cluster id
-- took_over_at: time of the new controller's first record
-- took_over_ms: took_over_at in ms since the Unix epoch
-- metadata_offset: metadata offset of that record
-- previous_controller: active controller before
-- controller: active controller from here on; the same as before if it was elected again
-- previous_controller_epoch: controller epoch before
-- controller_epoch: controller epoch from here on
-- epochs_skipped: epochs between the two whose winner wrote nothing that was committed
-- last_record_at: time of the last committed batch before
-- last_record_ms: last_record_at in ms since the Unix epoch
-- without_controller_ms: from then to took_over_at: at most this long no controller was active
-- until_at: when the next controller took over; null = it was still active at the log's end
-- until_ms: until_at in ms since the Unix epoch
with terms as (
  select
    q.cluster_id, q.controller_epoch, q.leader_id as controller,
    min(q.offset) as metadata_offset,
    min_by(q.timestamp_ms, q.offset) as took_over_ms
  from quorum_history q
  where q.leader_id is not null
  group by q.cluster_id, q.controller_epoch, q.leader_id
),
pairs as (
  select
    t.*,
    lag(t.controller) over (partition by t.cluster_id order by t.metadata_offset) as previous_controller,
    lag(t.controller_epoch) over (partition by t.cluster_id order by t.metadata_offset) as previous_controller_epoch,
    lead(t.took_over_ms) over (partition by t.cluster_id order by t.metadata_offset) as until_ms
  from terms t
),
last_batches as (
  select
    p.cluster_id, p.metadata_offset,
    max_by(b.max_timestamp_ms, b.last_offset) as last_record_ms
  from pairs p
  join log_batches b
    on b.cluster_id = p.cluster_id and b.last_offset < p.metadata_offset
  where b.commit_state <> 'uncommitted' and b.max_timestamp_ms > 0
  group by p.cluster_id, p.metadata_offset
)
select
  p.cluster_id,
  utc(p.took_over_ms) as took_over_at,
  p.took_over_ms,
  p.metadata_offset, p.previous_controller, p.controller, p.previous_controller_epoch, p.controller_epoch,
  p.controller_epoch - p.previous_controller_epoch - 1 as epochs_skipped,
  utc(b.last_record_ms) as last_record_at,
  b.last_record_ms,
  p.took_over_ms - b.last_record_ms as without_controller_ms,
  utc(p.until_ms) as until_at,
  p.until_ms
from pairs p
left join last_batches b on b.cluster_id = p.cluster_id and b.metadata_offset = p.metadata_offset
where p.previous_controller is not null
