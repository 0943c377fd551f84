-- The topic id of each log end offset (`row`): its own, or that of the one topic of the name that existed when the value
-- was read; null where several topics could be meant, or none, or not the one of its own id.
select given."row",
    case
        when given.topic_id is null and count(other.topic_id) = 1 then min(other.topic_id)
        when given.topic_id is not null and coalesce(own.topic = given.topic, true) then given.topic_id
    end as topic_id
from given left join lifetimes own on own.topic_id = given.topic_id
    left join lifetimes other on given.topic_id is null and other.topic = given.topic
    and coalesce(other.created_ms <= given.captured_at_ms + given.uncertainty_ms, true)
group by given."row", given.topic_id, given.topic, own.topic order by given."row"
