-- Every stretch of time in which a broker could not lead or be in sync: fenced, or not registered at all.
--
-- cluster_id: Kafka cluster id
-- broker_id: broker
-- out_from: when the broker was fenced, unregistered, or registered by a new process
-- out_to: when it was unfenced
-- out_from_ms: out_from in ms since the Unix epoch
-- out_to_ms: out_to in ms since the Unix epoch
-- is_out_now: whether it is still out at the log's end
-- cause: first_start, controlled_shutdown, fenced (its session timed out, or it stopped while it led nothing),
--   restarted (a new process registered while the old one was not fenced), unregistered, before_log (it was out where the history begins)
-- registered_at: when a new process registered; null = none did
-- registered_ms: registered_at in ms since the Unix epoch
-- restart_class: how the process before ended: clean, unclean, first or unknown
-- out_ms: how long, until the log's end if it is still out
-- down_ms: the part before a new process registered; all of it if the broker stayed out, 0 if the same process came back
-- starting_ms: the rest: the new process was still fenced
-- metadata_offset: metadata offset of the record that began it
-- end_metadata_offset: metadata offset of the record that unfenced it
with states as (
  select
    b.*,
    b.incarnation_id is null or b.fenced as is_out,
    lag(b.offset) over (partition by b.cluster_id, b.broker_id order by b.offset) as previous_offset,
    lag(b.incarnation_id) over (partition by b.cluster_id, b.broker_id order by b.offset) as previous_incarnation,
    coalesce(lag(b.in_controlled_shutdown) over (partition by b.cluster_id, b.broker_id order by b.offset), false)
      as was_shutting_down,
    coalesce(lag(b.incarnation_id is null or b.fenced) over (
      partition by b.cluster_id, b.broker_id order by b.offset), false) as was_out
  from broker_history b
),
numbered as (
  select
    s.*,
    sum(case when s.is_out and not s.was_out then 1 else 0 end) over (
      partition by s.cluster_id, s.broker_id order by s.offset
      rows between unbounded preceding and current row) as stretch
  from states s
),
begun as (
  select
    n.*,
    first_value(n.previous_incarnation) over (
      partition by n.cluster_id, n.broker_id, n.stretch order by n.offset
      rows between unbounded preceding and current row) as incarnation_before
  from numbered n
  where n.is_out
),
stretches as (
  select
    g.cluster_id, g.broker_id, g.stretch,
    min(g.offset) as metadata_offset,
    min_by(g.timestamp_ms, g.offset) as out_from_ms,
    case when count(case when g.end_offset is null then 1 end) = 0 then max_by(g.end_timestamp_ms, g.offset) end as out_to_ms,
    case when count(case when g.end_offset is null then 1 end) = 0 then max(g.end_offset) end as end_metadata_offset,
    count(case when g.end_offset is null then 1 end) > 0 as is_out_now,
    min_by(
      case
        when g.previous_offset is null and g.origin = 'checkpoint' then 'before_log'
        when g.previous_offset is null then 'first_start'
        when g.incarnation_id is null then 'unregistered'
        when g.previous_incarnation is null then 'first_start'
        when g.incarnation_id <> g.previous_incarnation then 'restarted'
        when g.was_shutting_down then 'controlled_shutdown'
        else 'fenced'
      end, g.offset) as cause,
    min(case when g.incarnation_id <> coalesce(g.incarnation_before, '') and g.origin = 'log' then g.timestamp_ms end)
      as registered_ms,
    max_by(g.restart_class, case
      when g.incarnation_id <> coalesce(g.incarnation_before, '') and g.origin = 'log' then g.offset end)
      as restart_class
  from begun g
  group by g.cluster_id, g.broker_id, g.stretch
)
select
  t.cluster_id, t.broker_id,
  utc(t.out_from_ms) as out_from,
  utc(t.out_to_ms) as out_to,
  t.out_from_ms, t.out_to_ms, t.is_out_now, t.cause,
  utc(t.registered_ms) as registered_at,
  t.registered_ms, t.restart_class,
  coalesce(t.out_to_ms, l.until_ms) - t.out_from_ms as out_ms,
  case
    when t.registered_ms is not null then t.registered_ms - t.out_from_ms
    when t.is_out_now then l.until_ms - t.out_from_ms
    else 0
  end as down_ms,
  case
    when t.registered_ms is not null then coalesce(t.out_to_ms, l.until_ms) - t.registered_ms
    when t.is_out_now then 0
    else t.out_to_ms - t.out_from_ms
  end as starting_ms,
  t.metadata_offset, t.end_metadata_offset
from stretches t
left join captured_log l on l.cluster_id = t.cluster_id
