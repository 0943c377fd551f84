-- meaning: The profile that gives the prediction is among the possible profiles, unless it has a known bug mended.
-- action: Run replay and detect again on a lake of this release; if it is still broken, report it with the capture.
-- kind: consistency; severity: error; scope: row
-- key: topic_id, partition, offset, profile
from rule_differences
where profile is not null and difference is distinct from 'known_bug' and not list_contains(coalesce(profiles, []), profile)
