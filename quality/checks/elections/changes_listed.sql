-- meaning: Every change of leader in partition_history has its election.
-- action: Run replay and detect again on a lake of this release; if it is still broken, report it with the capture.
-- kind: completeness; severity: error; scope: topic
-- key: topic_id, partition, offset, leader
with changes as (
    from partition_history h
    where not coalesce(removed, false)
    qualify follows and (topic_id, partition) is not distinct from lag((topic_id, partition)) over ()
        and leader is distinct from lag(leader) over ()
)
from changes c anti join elections e
    on c.topic_id = e.topic_id and c.partition = e.partition and c.offset = e.offset
where origin = 'log'
