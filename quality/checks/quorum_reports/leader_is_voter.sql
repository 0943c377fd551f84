-- meaning: The leader of the quorum is among the voters that the report names.
-- action: Compare with controller.quorum.voters on every node.
-- kind: consistency; severity: error; scope: row
-- key: source, node_id, captured_at_ms, leader_id
from quorum_reports where leader_id <> -1 and len(voters) > 0 and not list_contains(voters, leader_id)
