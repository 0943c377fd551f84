-- Findings by kind, verdict and rule. Sums have 128 bits: values from damaged files may overflow 64.
select kind, verdict, rule, rule_version, count(*) as findings, count(*) filter (end_offset is null) as unended,
    max(lasted_ms) as longest_ms, sum(greatest(coalesce(lasted_ms, 0), 0)) as lasted_ms
from given group by all
