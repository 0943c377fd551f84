-- Each capture: what its manifest says, and sums over its files.
select files.capture, kafka_release, clock_error_ms, sha256, files.* exclude (capture)
from (
    select capture, count(*) as files, sum(size_bytes) as size_bytes, sum(parsed_bytes) as parsed_bytes,
        sum(quarantined_bytes) as quarantined_bytes, sum(trailing_bytes) as trailing_bytes,
        min(captured_at_ms) as first_ms, max(captured_at_ms) as last_ms
    from evidence_files group by capture
) files
left join captures on captures.capture = files.capture
order by files.capture
