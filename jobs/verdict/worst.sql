-- The worst findings of each kind and of each status, with their places among these.
select kind, finding_id, status, row_number() over of_kind as place, row_number() over of_status as place_of_status
from (select *, coalesce(list_position($severities, severity), 0) as rank from given)
window
    of_kind as (partition by kind order by rank, start_offset, finding_id),
    of_status as (partition by status order by rank, kind, start_offset, finding_id)
qualify place <= $most or place_of_status <= $most_ids
order by kind, place
