-- What page one needs of windows beside the answer. cut: whether the log of the new leader was cut back before.
select finding_id, start_offset, cause, previous_leader, elections.timestamp_ms as elected_ms,
    coalesce(isr_before, []) as isr_before, coalesce(elr_before, []) as elr_before,
    len(list_filter(reason, lambda s: s.code = 'contradicted_by_truncation'
        and list_contains(s.brokers, recorded_leader))) > 0 as cut
from findings left join elections on elections.topic_id = findings.topic_id
    and elections.partition = findings.partition and elections."offset" = election_offset
where finding_id in (select unnest($ids))
