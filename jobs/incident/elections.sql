-- The gravest elections, of $topic if one is given; $causes: the gravest first.
select "offset", timestamp_ms, topic_id, topic, partition, previous_leader, leader, leader_epoch, cause
from elections where timestamp_ms between 0 and 4503599627370495 and ($topic is null or topic = $topic)
order by coalesce(nullif(list_position($causes, cause), 0), 100), "offset", topic_id, partition limit $most
