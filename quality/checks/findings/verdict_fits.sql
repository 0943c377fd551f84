-- meaning: A window is proven if, and only if, loss_min is above 0; an excluded one has no loss_max above 0.
-- action: Run detect again on a lake of this release; if it is still broken, report it with the capture.
-- kind: consistency; severity: error; scope: row
-- key: finding_id, verdict, loss_min, loss_max
from findings
where kind = 'hwm_regression'
    and ((verdict is not distinct from 'proven') <> coalesce(loss_min > 0, false)
        or verdict = 'excluded' and loss_max > 0)
