-- Ranges of offsets, first to last, of transactions that were aborted or did not end.
-- rows: without a topic
with markers as (
    select m.offset, type, lead(m.offset) over (order by m.offset) as next_offset, lead(type) over (order by m.offset) as next_type
    from metadata_records m
    where type in ('BEGIN_TRANSACTION_RECORD', 'END_TRANSACTION_RECORD', 'ABORT_TRANSACTION_RECORD')
)
select m.offset as first, coalesce(next_offset, 9223372036854775807) as last
from markers m
where type = 'BEGIN_TRANSACTION_RECORD' and next_type is distinct from 'END_TRANSACTION_RECORD'
