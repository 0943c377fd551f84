-- How many findings have each status, and the ids of the worst of them.
select status, count(*) as findings,
    list(finding_id order by coalesce(list_position($severities, severity), 0), kind, start_offset, finding_id)[:$most] as ids
from given group by status
