-- Ranges of offsets, first to last, of which nothing is known: before the history, from a fault of the log to the
-- next snapshot, and all of them where two logs conflict.
with gaps as (
    select distinct rule, coalesce(start_offset, -9223372036854775808) as first
    from findings
    where rule in ('offset_gap', 'unreadable_record', 'no_snapshot', 'unknown_prefix', 'log_conflict')
), snapshots as (
    select h.offset from quorum_history h where origin = 'checkpoint'
)
select first, coalesce((select min(s.offset) from snapshots s where s.offset > first), 9223372036854775807) as last from gaps
union all
select -9223372036854775808, coalesce((select min(h.offset) - 1::hugeint from quorum_history h), 9223372036854775807)
union all
select -9223372036854775808, 9223372036854775807 from gaps where rule = 'log_conflict'
