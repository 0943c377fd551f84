-- Of the first $most findings of rule_mismatch that are not excluded, those with a known bug.
select finding_id, topic_id, topic, partition, ticket
from (
    select * from findings where kind = 'rule_mismatch' and verdict is distinct from 'excluded'
    order by topic, partition, start_offset, finding_id limit $most
)
where ticket is not null order by topic, partition, start_offset, finding_id
