-- The worst findings of each kind.
with worst as (
    select finding_id, status, row_number() over of_kind as place
    from (select *, coalesce(list_position($severities, severity), 0) as rank from given)
    window of_kind as (partition by kind order by rank, start_offset, finding_id)
    qualify place <= $most
)
select kind, finding_id, topic, partition, verdict, severity, start_offset, start_timestamp_ms, loss_min, loss_max,
    explanation, status
from worst join findings using (finding_id)
order by kind, place
