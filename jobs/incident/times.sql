-- The first and the last time that files and sessions of brokers show, and the number of brokers.
select min(at_ms) as first_ms, max(at_ms) as last_ms, count(distinct broker_id) as brokers
from (
    select last_timestamp_ms as at_ms, null as broker_id from evidence_files
    union all select timestamp_ms, broker_id from broker_history
)
where at_ms between 0 and 4503599627370495
