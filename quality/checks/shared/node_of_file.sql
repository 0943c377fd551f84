-- meaning: The node is the one that evidence_files names for the file.
-- action: Ingest the capture into a new lake. If it happens again, report it with the capture.
-- tables: static_configs, boot_ids
-- kind: consistency; severity: error; scope: cluster
-- key: node_id, path, position
select t.* from {table} t join evidence_files f using (capture, path, sha256)
where f.node_id is not null and f.node_id is distinct from t.node_id
