-- The best known log end of each replica at each time that one was read, with its source. For the log end at a time T:
-- `where read_at <= T and (next_read_at is null or next_read_at > T)`.
-- Of several readings of one time the more exact source counts. A metric of 0 is left out: a process shows it while it
-- has not loaded its log. Files without a time of reading (disks copied at the end) are last in each replica's order.
--
-- cluster_id: Kafka cluster id
-- topic: topic name at that time
-- partition: partition
-- topic_id: topic id: the identity of the topic
-- broker_id: broker (or controller, for __cluster_metadata)
-- read_at: earliest time the log end was read
-- read_ms: read_at in ms since the Unix epoch
-- read_by_ms: latest time it was read
-- log_end_offset: log end offset of the replica
-- last_written_leader_epoch: leader epoch of the last batch in its log
-- source: kind of the file, e.g. jmx_exporter, replica_segment; log_line for a line of the broker's own log
-- next_read_at: time of the replica's next reading
-- next_read_ms: next_read_at in ms since the Unix epoch
-- path: file inside the capture
-- position: byte position in that file
with names as (
  select
    h.cluster_id, h.topic_id,
    max_by(h.topic, h.offset) as topic,
    min(h.timestamp_ms) as from_ms,
    min(case when h.removed then h.timestamp_ms end) as removed_ms
  from partition_history h
  group by h.cluster_id, h.topic_id
),
readings as (
  select
    o.cluster_id, o.topic, o.topic_id, o.partition, o.broker_id,
    o.captured_at_ms as read_ms,
    o.captured_at_ms + coalesce(o.uncertainty_ms, 0) as read_by_ms,
    o.log_end_offset, o.last_written_leader_epoch, o.source, o.path, o.position
  from log_end_offsets o
  where o.log_end_offset is not null and o.broker_id is not null and o.partition is not null
    and not (o.log_end_offset = 0 and o.source in ('jmx_exporter', 'jmx_tool'))
  union all
  select
    v.cluster_id, v.topic, v.topic_id, v.partition, v.node_id as broker_id,
    v.logged_at_utc_ms as read_ms, v.logged_at_utc_ms as read_by_ms,
    v.log_end_offset, cast(null as int) as last_written_leader_epoch, 'log_line' as source, v.path, v.position
  from broker_log_events v
  where v.log_end_offset is not null and v.node_id is not null and v.partition is not null
    and v.logged_at_utc_ms is not null
),
named as (
  select
    r.cluster_id, coalesce(n.topic, r.topic) as topic, coalesce(r.topic_id, n.topic_id) as topic_id, r.partition,
    r.broker_id, r.read_ms, r.read_by_ms, r.log_end_offset, r.last_written_leader_epoch, r.source, r.path, r.position,
    row_number() over (
      partition by r.cluster_id, coalesce(r.topic_id, n.topic_id, r.topic), r.partition, r.broker_id,
        r.read_ms
      order by case
          when r.source = 'replica_segment' then 0
          when r.source = 'log_line' then 2
          when r.source in ('jmx_exporter', 'jmx_tool') then 3
          else 1
        end, n.from_ms desc, r.read_by_ms, r.log_end_offset desc, r.path, r.position) as choice
  from readings r
  left join names n
    on n.cluster_id = r.cluster_id
    and (r.topic_id = n.topic_id
      or (r.topic_id is null and r.topic = n.topic and (r.read_ms is null or n.from_ms <= r.read_ms)
        and (n.removed_ms is null or n.removed_ms > r.read_ms)))
),
chosen as (
  select
    m.*,
    lead(m.read_ms) over (
      partition by m.cluster_id, coalesce(m.topic_id, m.topic), m.partition, m.broker_id
      order by case when m.read_ms is null then 1 else 0 end, m.read_ms) as next_read_ms
  from named m
  where m.choice = 1
)
select
  c.cluster_id, c.topic, c.partition, c.topic_id, c.broker_id,
  utc(c.read_ms) as read_at,
  c.read_ms, c.read_by_ms, c.log_end_offset, c.last_written_leader_epoch, c.source,
  utc(c.next_read_ms) as next_read_at,
  c.next_read_ms, c.path, c.position
from chosen c
