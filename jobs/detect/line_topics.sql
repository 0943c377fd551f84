-- The topic id of each line about a partition (`row`), null if that is not certain. A node's lines about a partition in
-- one file are a place; a line of an unknown node is alone.
--
-- It is the id that the last line before it and the next line after it in its place both have: its own, if it has one, and
-- a topic that was deleted never comes back. Else, if the whole log is known up to some time, that of the only topic that
-- ever had the name, unless that line before or after it has another, or the line may be from before the topic's creation
-- or after that time: the next topic of that name goes through the same epochs. If it may be from after the creation,
-- where the line keeps a loss from being excluded (damaged). No zone's clocks are further from UTC than 14 hours.
with names as (
    select topic, max(topic_id) as only_id, min(created_ms) as created_ms from lifetimes
    group by topic having count(distinct topic_id) = 1
),
placed as (
    select "row", topic, list_contains($damaged, kind) as is_damaged,
        coalesce(logged_at_utc_ms, logged_at_ms + if(list_contains($damaged, kind), 50400000, -50400000)) as at_ms,
        last_value(topic_id ignore nulls) over (place rows between unbounded preceding and current row) as before_id,
        coalesce(logged_at_utc_ms, logged_at_ms + 50400000) as by_ms,
        first_value(topic_id ignore nulls) over (place rows between current row and unbounded following) as after_id
    from given window place as (
        partition by capture, path, node_id, if(node_id is null, "row", null), topic, "partition" order by position, "row"
    )
)
select "row", case
        when before_id = after_id then before_id
        when $known_until_ms is not null and coalesce(before_id = only_id, true) and coalesce(after_id = only_id, true)
            and coalesce(at_ms >= created_ms, is_damaged) and (is_damaged or by_ms <= $known_until_ms) then only_id
    end as topic_id
from placed left join names using (topic) order by "row"
