-- The newest registration of each broker, and its newest record, in which it could lead.
select broker_id, max(broker_epoch) as broker_epoch, max("offset") as "offset"
from broker_history where not fenced and not in_controlled_shutdown group by broker_id
