-- meaning: The controller epoch does not fall.
-- action: Run replay and detect again on a lake of this release; if it is still broken, report it with the capture.
-- kind: consistency; severity: error; scope: cluster
-- key: offset, controller_epoch
from quorum_history h qualify controller_epoch < lag(controller_epoch) over (order by h.offset)
