-- Windows that are not excluded, with who led, was in sync and ran before their election, and whether who led joined the
-- ISR of another leader after it.
select finding_id, findings.topic_id, findings.topic, findings.partition, verdict, start_offset, election_offset,
    first_lost_offset, ticket, recorded_leader, previous_leader,
    coalesce(isr_before, []) as isr_before, coalesce(elr_before, []) as elr_before,
    coalesce(candidates, []) as candidates,
    exists (
        select * from partition_history where topic_id = findings.topic_id and partition = findings.partition
        and "offset" > election_offset and leader not in (-1, previous_leader) and list_contains(isr, previous_leader)
    ) and not exists (
        select * from partition_history where topic_id = findings.topic_id and partition = findings.partition
        and "offset" = election_offset and list_contains(isr, previous_leader)
    ) as joined_again
from (
    select * from findings where kind = 'hwm_regression' and verdict is distinct from 'excluded'
    order by topic, partition, start_offset, finding_id limit $most
) findings
left join elections on elections.topic_id = findings.topic_id and elections.partition = findings.partition
    and elections."offset" = election_offset
order by findings.topic, findings.partition, start_offset, finding_id
