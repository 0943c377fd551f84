-- The rows of the newest runs, the newest last. run: sorts runs by time; time: of the run; name: of the expectation, with its
-- table; state: met, warned or broken.
select * replace (coalesce(element_count, 0) as element_count), printf('%020d %s', run_at_ms, run_id) as run,
    strftime(make_timestamp(run_at_ms * 1000), '%Y-%m-%d %H:%M:%S') as time, "table" || '.' || expectation as name,
    case when success then 'met' when severity = 'warn' then 'warned' else 'broken' end as state
from quality_results where run_id in (
    select run_id from quality_results group by run_id order by max(run_at_ms) desc limit $most
)
order by run, name
