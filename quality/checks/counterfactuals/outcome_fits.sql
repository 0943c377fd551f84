-- meaning: A prediction names a leader if its outcome is elected, and only then.
-- action: Run replay and detect again on a lake of this release; if it is still broken, report it with the capture.
-- kind: consistency; severity: error; scope: row
-- key: finding_id, policy, outcome, leader
from counterfactuals where (leader is not null) <> coalesce(outcome = 'elected', false)
