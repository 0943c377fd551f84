-- meaning: The processes in one file follow one another: each begins after the last event of the one before.
-- action: Ingest the capture into a new lake. If it happens again, report it with the capture.
-- kind: consistency; severity: error; scope: cluster
-- key: node_id, path, first_position
from node_boots
qualify first_position <= lag(last_position) over (partition by capture, path, sha256 order by first_position)
