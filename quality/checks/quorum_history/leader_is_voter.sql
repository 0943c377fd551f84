-- meaning: The active controller is among the voters, where they are known.
-- action: See leader_is_voter in docs/invariants.md.
-- kind: consistency; severity: error; scope: row
-- key: offset, leader_id, voters
from quorum_history where len(voters) > 0 and not list_contains(voters, leader_id)
