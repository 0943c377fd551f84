-- Findings by section, kind, verdict and rule.
select section, kind, verdict, rule, rule_version, count(*) as findings from given group by all
