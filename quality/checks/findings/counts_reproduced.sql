-- meaning: The statements of the reason give the figures again; a loss is the high watermark less the new leader's
--   log end.
-- action: Run detect again on a lake of this release; if it is still broken, report it with the capture.
-- kind: reconciliation; severity: error; scope: row
-- key: finding_id, loss_min, loss_max, first_lost_offset, unacked_min, unacked_max
with stated as (
    select *,
        list_filter(reason, lambda s: s.code = 'lost_at_least')[1].value as lost_at_least,
        list_filter(reason, lambda s: s.code = 'lost_at_most')[1].value as lost_at_most,
        list_filter(reason, lambda s: s.code = 'first_lost')[1].value as first_lost,
        list_filter(reason, lambda s: s.code = 'unacked_at_least')[1].value as unacked_at_least,
        list_filter(reason, lambda s: s.code = 'unacked_at_most')[1].value as unacked_at_most
    from findings
    where kind = 'hwm_regression'
)
from stated
where lost_at_least is not null and lost_at_least is distinct from loss_min
    or lost_at_most is not null and lost_at_most is distinct from loss_max
    or first_lost is not null and first_lost is distinct from first_lost_offset
    or unacked_at_least is not null and unacked_at_least is distinct from unacked_min
    or unacked_at_most is not null and unacked_at_most is distinct from unacked_max
    or loss_min > 0 and (high_watermark_min::hugeint - log_end_max is distinct from loss_min)
