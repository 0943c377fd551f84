-- Topics that were deleted while the captured log goes on, by time. next_id, next_ms: of the topic that was created with
-- that name after it; null without one.
with topics as (
    select topic, topic_id, removed, min("offset") as "offset", min(timestamp_ms) as at_ms
    from partition_history where topic in (select topic from partition_history where removed)
    group by topic, topic_id, removed
)
select gone.topic, gone.topic_id, gone."offset", gone.at_ms as deleted_ms,
    later.topic_id as next_id, later.at_ms as next_ms
from (select * from topics where removed) gone
asof left join (select * from topics where not removed) later
    on gone.topic = later.topic and gone."offset" < later."offset"
order by gone."offset", gone.topic_id
