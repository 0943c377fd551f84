-- What each topic lost: its windows by verdict, and bounds on the lost offsets. One row a topic with a judged window.
-- Counted are offsets below the high watermark (acks=all).
--
-- cluster_id: Kafka cluster id
-- topic: topic name at that time
-- topic_id: topic id: the identity of the topic
-- windows: judged windows
-- proven: windows with a proven loss
-- possible: windows that may have lost records
-- undetermined: windows that the evidence does not decide
-- excluded: windows that certainly lost nothing
-- partitions_lost: partitions with a proven loss
-- loss_min: at least this many offsets were lost, by proven windows
-- loss_max: at most this many were lost, by all windows; null = one has no upper bound
-- first_at: when the first window opened that is not excluded; null if all are
-- first_ms: first_at in ms since the Unix epoch
with totals as (
  select
    w.cluster_id, w.topic_id,
    max_by(w.topic, w.elected_metadata_offset) as topic,
    count(*) as windows,
    count(case when w.verdict = 'proven' then 1 end) as proven,
    count(case when w.verdict = 'possible' then 1 end) as possible,
    count(case when w.verdict = 'undetermined' then 1 end) as undetermined,
    count(case when w.verdict = 'excluded' then 1 end) as excluded,
    count(distinct case when w.verdict = 'proven' then w.partition end) as partitions_lost,
    sum(case when w.verdict = 'proven' then coalesce(w.loss_min, 0) else 0 end) as loss_min,
    case when count(case when w.loss_max is null then 1 end) = 0 then sum(w.loss_max) end as loss_max,
    min(case when w.verdict <> 'excluded' then w.opened_ms end) as first_ms
  from windows w
  group by w.cluster_id, w.topic_id
)
select
  t.cluster_id, t.topic, t.topic_id,
  cast(t.windows as int) as windows,
  cast(t.proven as int) as proven,
  cast(t.possible as int) as possible,
  cast(t.undetermined as int) as undetermined,
  cast(t.excluded as int) as excluded,
  cast(t.partitions_lost as int) as partitions_lost,
  cast(t.loss_min as bigint) as loss_min,
  cast(t.loss_max as bigint) as loss_max,
  utc(t.first_ms) as first_at,
  t.first_ms
from totals t
