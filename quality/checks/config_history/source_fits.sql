-- meaning: An effective value has a source, and a source has an effective value.
-- action: Run replay and detect again on a lake of this release; if it is still broken, report it with the capture.
-- kind: consistency; severity: error; scope: row
-- key: resource_type, resource_name, name, offset, source
from config_history where (effective_value is null) <> (source is null)
