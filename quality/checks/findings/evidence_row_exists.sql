-- meaning: A reading, line or batch that is evidence is a row of log_end_offsets, described_partitions,
--   quorum_reports, broker_log_events, quarantine, log_batches, snapshot_records.
-- action: Run detect again on a lake of this release; if it is still broken, report it with the capture.
-- kind: validity; severity: error; scope: cluster
-- key: finding_id, role, source, path, position
with pieces as materialized (
    select * from (select finding_id, unnest(evidence, recursive := true) from findings)
    where sha256 is not null
        and coalesce(source, '') not in ('partition_history', 'rule_differences', 'invariant_violations')
), places as (
    select sha256, path, position from log_end_offsets
    union all select sha256, path, position from described_partitions
    union all select sha256, path, position from quorum_reports
    union all select sha256, path, position from broker_log_events
    union all select sha256, path, position from quarantine
    union all select sha256, path, position from log_batches
    union all select sha256, path, position from snapshot_records
), known as materialized (
    from places l semi join pieces p
        on l.sha256 = p.sha256 and l.path = p.path and l.position is not distinct from p.position
)
from pieces p anti join known k
    on p.sha256 = k.sha256 and p.path = k.path and p.position is not distinct from k.position
