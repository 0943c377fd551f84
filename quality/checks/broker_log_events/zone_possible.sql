-- meaning: logged_at_ms and logged_at_utc_ms differ by whole quarters of an hour, and by less than a day.
-- action: The zone of the node is wrong: name it in the capture's manifest, and ingest into a new lake.
-- kind: consistency; severity: error; scope: row
-- key: node_id, path, position
select *, logged_at_ms::hugeint - logged_at_utc_ms as zone_ms
from broker_log_events
where zone_ms % 900000 <> 0 or abs(zone_ms) >= 86400000
