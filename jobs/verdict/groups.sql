-- The findings by kind, verdict, severity and rule; open_losses: those without an upper bound.
select kind, verdict, severity, rule, rule_version, sum(loss_min) as loss_min, sum(loss_max) as loss_max,
    count(*) filter (loss_max is null) as open_losses, count(*) as findings
from given group by all
