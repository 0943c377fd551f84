-- What would have been lost under each policy. Losses are of windows where it elects a leader; loss_max is null if one
-- has no upper bound.
select policy, count(*) as windows, count(*) filter (outcome = 'elected') as elected,
    count(*) filter (outcome = 'waits') as waits, count(*) filter (outcome = 'undetermined') as undetermined,
    count(*) filter (differs) as differs, coalesce(sum(loss_min) filter (outcome = 'elected'), 0) as loss_min,
    case when bool_or(outcome = 'elected' and loss_max is null) then null
        else coalesce(sum(loss_max) filter (outcome = 'elected'), 0) end as loss_max
from (select *, row_number() over () as place from given) group by policy order by min(place)
