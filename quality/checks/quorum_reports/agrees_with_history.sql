-- meaning: The leader of an epoch is the one that quorum_history has for it.
-- action: Two controllers led in one epoch, or the report is of another cluster: compare the cluster ids.
-- kind: agreement; severity: error; scope: cluster
-- key: source, node_id, captured_at_ms, leader_id, leader_epoch
with led as (
    select controller_epoch, list(leader_id) as leaders from quorum_history where leader_id is not null group by all
)
from quorum_reports r join led on r.leader_epoch = led.controller_epoch
where leader_id <> -1 and not list_contains(leaders, leader_id)
