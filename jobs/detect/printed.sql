-- The states that Kafka's tools printed; one without a topic id once for each topic of its name.
select printed.* replace (coalesce(printed.topic_id, lifetimes.topic_id) as topic_id)
from printed left join lifetimes on printed.topic_id is null and printed.topic = lifetimes.topic
where printed.topic_id is not null or lifetimes.topic_id is not null
