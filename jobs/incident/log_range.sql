-- The captured metadata log: its first and last offset, and their batches' times; null if no batch was captured.
select min(base_offset) as first_offset, max(last_offset) as last_offset,
    min(base_timestamp_ms) filter (base_timestamp_ms > 0) as from_ms,
    max(max_timestamp_ms) filter (max_timestamp_ms > 0) as until_ms
from log_batches
