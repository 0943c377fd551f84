-- meaning: The broker epoch of a broker does not fall.
-- action: Run replay and detect again on a lake of this release; if it is still broken, report it with the capture.
-- kind: consistency; severity: error; scope: cluster
-- key: broker_id, offset, broker_epoch
from broker_history h
where broker_epoch is not null
qualify broker_epoch < lag(broker_epoch) over (partition by broker_id order by h.offset)
