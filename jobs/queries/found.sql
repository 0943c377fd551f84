-- What the findings of a cluster say: windows by verdict, and what is kept of findings without their evidence. Nothing is
-- said of the time before the first snapshot, so that a log begins late (since_ms) is no gap in what is said. is_unknown:
-- there is another one, or an undetermined window.
with judged as (
    select *, kind = 'hwm_regression' as is_window, coalesce(rule = 'unknown_prefix' and start_offset = 0, false) as late
    from given
),
kept as (select kind, verdict from kept_findings where finding_id not in (select finding_id from given))
select coalesce(sum(loss_min) filter (is_window and verdict = 'proven'), 0) as lost_records,
    count(*) filter (is_window and verdict = 'proven') as proven,
    count(*) filter (is_window and (verdict is null or verdict not in ('proven', 'excluded'))) as open,
    count(*) filter (is_window and verdict = 'excluded') as excluded, count(*) filter (status = 'new') as new,
    case when bool_or(late) then (select min(timestamp_ms) from partition_history) end as since_ms,
    (select count(*) from kept) as kept,
    (select count(*) from kept where kind = 'hwm_regression' and verdict = 'proven') as kept_proven,
    coalesce(bool_or((kind = 'evidence_gap' and not late) or (is_window and verdict = 'undetermined')), false) as is_unknown
from judged
