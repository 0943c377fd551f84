-- Files that hold the metadata log come first, then files that were not read completely.
select capture, path, kind, sha256, node_id, captured_at_ms, base_offset, end_offset, status, note, size_bytes,
    parsed_bytes, quarantined_bytes, trailing_bytes
from evidence_files
order by
    case kind when 'metadata_segment' then 0 when 'metadata_checkpoint' then 1 when 'dump_log' then 2 else 3 end,
    coalesce(quarantined_bytes = 0, true), capture, path
limit $most
