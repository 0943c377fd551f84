-- meaning: The file that a row names is in evidence_files.
-- action: Evidence was removed while rows that rest on it were kept: run replay and detect again, or ingest the
--   capture again.
-- tables: quarantine, broker_log_events, node_boots, boot_ids, static_configs, captures, log_batches,
--   metadata_records, snapshot_records, log_end_offsets, described_partitions, quorum_reports, partition_history,
--   feature_history, config_history, broker_history, quorum_history, cluster_metrics, elections, rule_differences,
--   invariant_violations
-- kind: validity; severity: error; scope: row
-- key: path, {key}
from {table} anti join evidence_files using (capture, path, sha256) where sha256 is not null
