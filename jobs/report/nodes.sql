-- What was captured of each node: kinds of files, at most 12, and the offsets of its metadata log.
select capture, node_id, list_sort(list(distinct kind))[:12] as kinds,
    greatest(count(distinct kind) - 12, 0) as more_kinds, count(*) as files,
    min(base_offset) as base_offset, max(end_offset) as end_offset, sum(quarantined_bytes) as quarantined_bytes
from evidence_files group by capture, node_id order by capture, node_id limit $most
