-- How much of each flagged window the readings of a source of a broker cover, for sources that were read at least 3
-- times there. A reading covers the time after it, to the next one, but $reading_gap_ms at most.
with log_end as (
    select greatest(max(max_timestamp_ms), 0) as ms from log_batches
), windows as (
    select topic, partition, start_timestamp_ms, end_timestamp_ms, row_number() over () as number, start_timestamp_ms::hugeint as first,
        greatest(coalesce(end_timestamp_ms, ms, 0), start_timestamp_ms::hugeint + 1) as last
    from findings, log_end
    where kind = 'hwm_regression' and start_timestamp_ms is not null
), readings as (
    select topic, partition, broker_id, source, captured_at_ms::hugeint as read_ms,
        lead(captured_at_ms) over (partition by topic, partition, broker_id, source order by captured_at_ms) as next_ms,
        count(*) over (partition by topic, partition, broker_id, source) as times
    from log_end_offsets semi join windows using (topic, partition)
    where captured_at_ms is not null and broker_id is not null and source <> 'listing'
)
select number, any_value(w.topic) as topic, any_value(w.partition) as partition, any_value(w.start_timestamp_ms) as start_timestamp_ms,
    any_value(w.end_timestamp_ms) as end_timestamp_ms, broker_id, source,
    sum(greatest(least(read_ms + $reading_gap_ms, next_ms, last), first) - least(greatest(read_ms, first), last)) / any_value(last - first) as share
from windows w join readings r using (topic, partition)
where times >= 3
group by number, broker_id, source
