-- A row for each term of an active controller: its rows without a break.
select min("offset") as "offset", first(timestamp_ms order by "offset") as timestamp_ms,
    last(end_timestamp_ms order by "offset") as end_timestamp_ms, controller_epoch, leader_id
from (
    select *, row_number() over (order by "offset")
        - row_number() over (partition by leader_id, controller_epoch order by "offset") as stretch
    from quorum_history where leader_id is not null and timestamp_ms between 0 and 4503599627370495
)
group by leader_id, controller_epoch, stretch order by "offset"
