-- Findings of a kind that are not excluded, with who led, was in sync and ran before their election.
select finding_id, findings.topic_id, findings.topic, findings.partition, verdict, start_offset, election_offset,
    first_lost_offset, ticket, recorded_leader, previous_leader,
    coalesce(isr_before, []) as isr_before, coalesce(elr_before, []) as elr_before,
    coalesce(candidates, []) as candidates
from (
    select * from findings where kind = $kind and verdict is distinct from 'excluded'
    order by topic, partition, start_offset, finding_id limit $most
) findings
left join elections on elections.topic_id = findings.topic_id and elections.partition = findings.partition
    and elections."offset" = election_offset
order by findings.topic, findings.partition, start_offset, finding_id
