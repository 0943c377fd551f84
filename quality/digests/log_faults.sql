-- What was found of the log at an offset, by the rule that found it.
select distinct rule, start_offset from findings where rule is not null
