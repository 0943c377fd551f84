-- meaning: A state that is evidence is a row of partition_history, with the same leader epoch.
-- action: Run detect again on a lake of this release; if it is still broken, report it with the capture.
-- kind: validity; severity: error; scope: topic
-- key: finding_id, role, offset
select e.*
from (select finding_id, topic_id, partition, unnest(evidence, recursive := true) from findings) e
    left join partition_history h
    on e.topic_id = h.topic_id and e.partition = h.partition and e.offset = h.offset
where source = 'partition_history' and e.topic_id is not null and e.offset is not null
    and (h.offset is null or coalesce(e.leader_epoch is distinct from h.leader_epoch and e.leader_epoch is not null, false))
