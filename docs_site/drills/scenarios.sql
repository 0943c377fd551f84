-- A line for each scenario, with the minor releases that played it: the first and the last one, if none that was played is
-- missing between. Scenarios whose plan was followed are in plans.sql, those without anything to judge in quiet.sql.
with every as (select list_sort(list(distinct minor)) as known from drills),
scenarios as (
    select
        scenario,
        list_sort(list(distinct minor)) as played,
        count(*) as drills,
        sum(windows) as windows,
        share(sum(decided), sum(windows)) as decided,
        sum(lost_records) as "lost records",
        sum(wrong_claims) as "wrong claims",
        count(*) filter (not as_expected) as "not as expected"
    from drills
    where plan is null
    group by scenario
    having not bool_and(is_quiet)
)
select
    scenario,
    case
        when played = known then 'all'
        when len(played) > 2 and list_position(known, played[-1]) - list_position(known, played[1]) = len(played) - 1
            then as_text(played[1]) || ' to ' || as_text(played[-1])
        else array_to_string([as_text(minor) for minor in played], ', ')
    end as "Kafka",
    * exclude (scenario, played, known)
from scenarios, every
order by scenario
