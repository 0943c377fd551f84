-- When files were captured, by the clock of the capturing machine: the last times.
from (
    select captured_at_ms, count(*) as files,
        coalesce(list_sort(list(distinct node_id) filter (node_id is not null)), []) as nodes
    from evidence_files where captured_at_ms between 0 and 4503599627370495
    group by captured_at_ms order by captured_at_ms desc limit $most
)
order by captured_at_ms
