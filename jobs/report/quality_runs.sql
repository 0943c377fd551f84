-- Quality's newest runs, the newest first. failed: number of those that were not met and fail a run; warned: of the
-- others that were not met.
select run_at_ms, count(*) as expectations, count(*) filter (unmet and severity is distinct from 'warn') as failed,
    count(*) filter (unmet and severity = 'warn') as warned
from (select *, success is not true as unmet from quality_results)
group by run_at_ms, run_id order by run_at_ms desc, run_id limit $most
