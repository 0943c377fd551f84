-- The scenarios in which nothing happened that could be judged.
select
    'No window, and nothing lost or wrong: ' || string_agg(scenario, ', ' order by scenario) || ' ('
        || sum(drills) || ' drills).' as text
from (select scenario, count(*) as drills from drills where plan is null group by scenario having bool_and(is_quiet))
having count(*) > 0
