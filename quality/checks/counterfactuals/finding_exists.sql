-- meaning: The finding of a prediction is in findings, with the same election.
-- action: Run replay and detect again on a lake of this release; if it is still broken, report it with the capture.
-- kind: validity; severity: error; scope: cluster
-- key: finding_id, policy, offset
from counterfactuals c anti join findings f
    on c.finding_id = f.finding_id and c.offset is not distinct from f.election_offset
