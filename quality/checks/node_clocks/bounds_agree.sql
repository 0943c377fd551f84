-- meaning: The bounds of a clock's error are those of its offset less the zone.
-- action: Run detect again on a lake of this release.
-- kind: consistency; severity: error; scope: row
-- key: node_id, from_ms
from node_clocks
where error_lower_ms <> offset_lower_ms::hugeint - zone_ms or error_upper_ms <> offset_upper_ms::hugeint - zone_ms
