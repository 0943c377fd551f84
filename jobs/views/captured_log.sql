-- How far the captured metadata log reaches: one row a cluster.
-- All other views count open intervals until `until_ms`; nothing is known of later.
--
-- cluster_id: Kafka cluster id
-- first_metadata_offset: first metadata offset that was captured in a segment
-- last_metadata_offset: last metadata offset that was captured in a segment
-- from_at: time of the first batch
-- until_at: time of the last batch
-- from_ms: from_at in ms since the Unix epoch
-- until_ms: until_at in ms since the Unix epoch
-- committed_batches: batches that were committed, or may have been
-- uncommitted_batches: batches that another epoch replaced: never committed
with spans as (
  select
    b.cluster_id,
    min(b.base_offset) as first_metadata_offset,
    max(b.last_offset) as last_metadata_offset,
    min(case when b.base_timestamp_ms > 0 then b.base_timestamp_ms end) as from_ms,
    max(case when b.max_timestamp_ms > 0 then b.max_timestamp_ms end) as until_ms,
    cast(count(case when b.commit_state <> 'uncommitted' then 1 end) as bigint) as committed_batches,
    cast(count(case when b.commit_state = 'uncommitted' then 1 end) as bigint) as uncommitted_batches
  from log_batches b
  group by b.cluster_id
)
select
  s.cluster_id, s.first_metadata_offset, s.last_metadata_offset,
  utc(s.from_ms) as from_at, utc(s.until_ms) as until_at, s.from_ms, s.until_ms,
  s.committed_batches, s.uncommitted_batches
from spans s
