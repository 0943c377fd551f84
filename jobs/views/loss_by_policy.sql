-- What would have been lost under each policy, in all judged windows: predictions, never facts.
-- Losses are of the windows where the policy elects a leader. A policy that waits loses nothing and is not available.
--
-- cluster_id: Kafka cluster id
-- policy: policy, e.g. profile_4.3, before_elr (docs/findings.md)
-- windows: windows that were simulated
-- elected: windows where it elects a leader
-- waits: windows where it waits
-- undetermined: windows where the evidence does not decide what it does
-- differs: windows where it elects another leader than the recorded one
-- loss_min: at least this many acknowledged offsets would be lost
-- loss_max: at most this many; null = one has no upper bound
select
  c.cluster_id, c.policy,
  cast(count(*) as int) as windows,
  cast(count(case when c.outcome = 'elected' then 1 end) as int) as elected,
  cast(count(case when c.outcome = 'waits' then 1 end) as int) as waits,
  cast(count(case when c.outcome = 'undetermined' then 1 end) as int) as undetermined,
  cast(count(case when c.differs then 1 end) as int) as differs,
  cast(sum(case when c.outcome = 'elected' then coalesce(c.loss_min, 0) else 0 end) as bigint) as loss_min,
  case
    when count(case when c.outcome = 'elected' and c.loss_max is null then 1 end) = 0
      then cast(sum(case when c.outcome = 'elected' then c.loss_max else 0 end) as bigint)
  end as loss_max
from counterfactuals c
group by c.cluster_id, c.policy
