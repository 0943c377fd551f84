-- meaning: A replica's high watermark and recovery point are not above its log end in the same row.
-- action: The source printed offsets that cannot be: capture it again, and compare it with another source.
-- kind: consistency; severity: error; scope: row
-- key: broker_id, source, captured_at_ms, topic, partition
from log_end_offsets where high_watermark > log_end_offset or recovery_point_offset > log_end_offset
