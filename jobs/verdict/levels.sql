-- The levels of --fail-on that findings have, and whether new ones have them. Verdicts are those of windows, and of grave
-- faults of the log ($faults): other kinds judge no loss. Severities are those of all findings that are not excluded.
select level, bool_or(status = 'new') as is_new
from (
    select verdict as level, status from given
    where verdict in ('proven', 'possible')
        and (kind = 'hwm_regression' or (list_contains($faults, kind) and severity in ('critical', 'high')))
    union all
    select 'unknown', status from given
    where kind = 'evidence_gap' or (kind = 'hwm_regression' and verdict = 'undetermined')
    union all
    select severity, status from given where verdict <> 'excluded' and severity is not null
)
group by level
