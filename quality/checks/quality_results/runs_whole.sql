-- meaning: A run has one time, and one fingerprint for each suite; success means that no row broke the expectation.
-- action: Rows of quality_results were changed: do not rely on the trend before the newest run.
-- kind: consistency; severity: error; scope: cluster
-- key: run_id, suite, expectation
from quality_results
window of_run as (partition by run_id), of_suite as (partition by run_id, suite)
qualify min(run_at_ms) over of_run <> max(run_at_ms) over of_run
    or min(suite_fingerprint) over of_suite <> max(suite_fingerprint) over of_suite
    or success <> (unexpected_count = 0)
