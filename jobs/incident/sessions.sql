-- Sessions of brokers, at most $most_brokers: first of those that led after a window ($led), then of those that changed
-- between $first and $last. Of too many sessions those nearest to $first; $most of all brokers.
with sessions as (
    select *, row_number() over own - 1 as place, count(*) over (partition by broker_id) as total
    from broker_history where timestamp_ms between 0 and 4503599627370495
    window own as (partition by broker_id order by "offset")
),
chosen as (
    select broker_id, total,
        coalesce(min(place) filter (timestamp_ms >= $first), total) as middle,
        coalesce(nullif(list_position($led, broker_id), 0),
            case when bool_or(timestamp_ms between $first and $last) then 1000000 else 2000000 end) as rank
    from sessions group by broker_id, total order by rank, broker_id limit $most_brokers
),
spans as (
    select broker_id, each, greatest(0, least(middle - each // 2, total - each)) as first_place
    from (select *, $most // count(*) over () as each from chosen)
)
select broker_id, "offset", timestamp_ms, end_timestamp_ms, end_offset, incarnation_id, broker_epoch, fenced,
    in_controlled_shutdown, rack, restart_class, log_dirs, origin
from sessions join spans using (broker_id)
where place >= first_place and place < first_place + each
order by broker_id, "offset"
