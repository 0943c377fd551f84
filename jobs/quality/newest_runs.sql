-- The rows of the newest runs.
from quality_results where run_id in (
    select run_id from quality_results group by run_id order by max(run_at_ms) desc limit $most
)
