-- meaning: A boot id is a UUID, as Linux writes it.
-- action: The file is not /proc/sys/kernel/random/boot_id: capture it again.
-- kind: validity; severity: error; scope: row
-- key: node_id, path, position
from boot_ids where not regexp_full_match(boot_id, '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}', 'i')
