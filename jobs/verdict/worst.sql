-- The worst findings of each kind and of each status, with their places among these.
with worst as (
    select finding_id, status, row_number() over of_kind as place, row_number() over of_status as place_of_status
    from (select *, coalesce(list_position($severities, severity), 0) as rank from given)
    window
        of_kind as (partition by kind order by rank, start_offset, finding_id),
        of_status as (partition by status order by rank, kind, start_offset, finding_id)
    qualify place <= $most or place_of_status <= $most_ids
)
select place, place_of_status, kind, finding_id, topic, partition, verdict, severity, start_offset, start_timestamp_ms,
    loss_min, loss_max, explanation, status
from worst join findings using (finding_id)
order by kind, place
